<?php

declare(strict_types=1);

namespace Duetime;

/** The queues of the server: `$client->queues`. Queues with the fields of the HTTP API (`ready`, `scheduled`, `settings` …). */
final class Queues extends Group
{
    protected const KIND = 'queues';

    /**
     * Changes the settings that are named; null resets one to its default.
     *
     * @param array<string, mixed> $settings such as `["lease" => "5m", "max_running" => 20]`
     * @return array<mixed>
     */
    public function set(string $queue, array $settings): array
    {
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
