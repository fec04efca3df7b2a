<?php

declare(strict_types=1);

namespace Duetime;

/** The queues of the server: `$client->queues`. Queues with the fields of the HTTP API (`ready`, `scheduled`, `settings` …). */
final class Queues extends Group
{
    protected const KIND = 'queues';

    /**
     * Changes the settings that are named, such as `["lease" => "5m", "max_running" => 20]`; null resets one to its default.
     *
     * @param array{retry?: mixed, jitter?: float|null, max_attempts?: int|null, max_age?: string|int|float|\DateInterval|null,
     *     max_crashes?: int|null, when_exhausted?: mixed, lease?: string|int|float|\DateInterval|null, max_running?: int|null,
     *     rate?: array{per_second: float, burst?: int}|null, max_waiting?: int|null, when_full?: 'refuse'|'drop'|null, retention?: array{succeeded?: string, failed?: string}|null,
     *     target?: array<string, mixed>|null} $settings
     * @return array<mixed>
     * @throws Error\Invalid that names the setting which is unknown or has another type
     */
    public function set(string $queue, array $settings): array
    {
        if (isset($settings['lease'])) {
            $settings['lease'] = Duration::text($settings['lease'], 'lease');
        }
        if (isset($settings['max_age'])) {
            $settings['max_age'] = Duration::text($settings['max_age'], 'max_age');
        }
        return $this->transport->call('PUT', $this->path($queue), Json::object($settings))->fields;
    }

    /** Cancels all its waiting jobs, and says how many. */
    public function purge(string $queue): int
    {
        return (int) $this->transport->call('POST', $this->path($queue, 'purge'))->member('purged');
    }

    /**
     * Deletes a queue with its settings and the records of its jobs. By force, waiting jobs are cancelled first, and running
     * ones are asked to stop. Throws Conflict (`queue_in_use`) while jobs wait or run, or a schedule pushes to it.
     *
     * @return array<mixed> `existed`, `cancelled` and `deleted`; those of the repeat, if an answer was lost
     */
    public function delete(string $queue, bool $force = false): array
    {
        return $this->transport->call('DELETE', $this->path($queue) . ($force ? '?force=true' : ''))->fields;
    }
}
