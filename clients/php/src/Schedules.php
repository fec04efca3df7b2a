<?php

declare(strict_types=1);

namespace Duetime;

/** Recurring jobs: `$client->schedules`. Schedules with the fields of the HTTP API. */
final class Schedules extends Group
{
    protected const KIND = 'schedules';

    /**
     * Makes or changes a schedule.
     *
     * @param array<string, mixed> $schedule such as `["cron" => "0 3 * * *", "time_zone" => "Europe/Berlin", "job" => ["queue" =>
     *     "reports", "payload" => null]]`, or with `every` instead of `cron`; also `spread`, `missed`, `overlap`, `start`, `end`, `paused`,
     *     `paused_until`
     * @param bool $dryRun saves nothing; the answer has the next runs
     * @return array<mixed>
     */
    public function set(string $name, array $schedule, bool $dryRun = false): array
    {
        return $this->transport->call('PUT', $this->path($name) . ($dryRun ? '?dry_run=true' : ''), Json::object($schedule))->fields;
    }

    /**
     * Deletes a schedule. Jobs that it has pushed stay.
     *
     * @throws Error\NotFound
     */
    public function delete(string $name): void
    {
        $this->transport->call('DELETE', $this->path($name), done: ['schedule_not_found']);
    }

    /** Pushes its job once, now. */
    public function run(string $name): Pushed
    {
        $headers = ['idempotency-key: ' . bin2hex(random_bytes(16))];
        return $this->transport->call('POST', $this->path($name, 'run'), null, $headers)->read(Pushed::of(...));
    }

    /**
     * Its next runs, each with `at` and `local`.
     *
     * @return list<array<mixed>>
     */
    public function next(string $name, int $limit = 10): array
    {
        return $this->transport->call('GET', $this->path($name, 'next') . "?limit=$limit")->list('runs');
    }
}
