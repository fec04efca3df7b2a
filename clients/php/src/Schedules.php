<?php

declare(strict_types=1);

namespace Duetime;

/** Recurring jobs: `$client->schedules`. Schedules with the fields of the HTTP API. */
final class Schedules
{
    public function __construct(private readonly Transport $transport)
    {
    }

    /** @return \Generator<int, array<mixed>> */
    public function list(): \Generator
    {
        return Page::all($this->transport, '/v1/schedules', 'schedules');
    }

    /** @return array<mixed> */
    public function get(string $name): array
    {
        return $this->transport->call('GET', Transport::path('schedules', $name))->fields;
    }

    /**
     * Makes or changes a schedule.
     *
     * @param array<string, mixed> $schedule such as `["cron" => "0 3 * * *", "time_zone" => "Europe/Berlin", "job" => ["queue" =>
     *     "reports", "payload" => null]]`, or with `every` instead of `cron`
     * @return array<mixed>
     */
    public function set(string $name, array $schedule): array
    {
        return $this->transport->call('PUT', Transport::path('schedules', $name), Json::object($schedule))->fields;
    }

    /**
     * Deletes a schedule. Jobs that it has pushed stay.
     *
     * @throws Error\NotFound
     */
    public function delete(string $name): void
    {
        $this->transport->call('DELETE', Transport::path('schedules', $name), done: ['schedule_not_found']);
    }

    /**
     * @param string|int|float|\DateInterval|null $for without an end by default
     * @param \DateTimeInterface|string|null $until instead of `$for`
     * @return array<mixed>
     */
    public function pause(string $name, string|int|float|\DateInterval|null $for = null, \DateTimeInterface|string|null $until = null): array
    {
        $body = ($for === null ? [] : ['for' => Duration::text($for, 'for')]) + ($until === null ? [] : ['until' => Duration::instant($until)]);
        return $this->transport->call('POST', Transport::path('schedules', $name, 'pause'), Json::object($body))->fields;
    }

    /** @return array<mixed> */
    public function resume(string $name): array
    {
        return $this->transport->call('POST', Transport::path('schedules', $name, 'resume'))->fields;
    }

    /** Pushes its job once, now. */
    public function run(string $name): Pushed
    {
        $headers = ['idempotency-key: ' . bin2hex(random_bytes(16))];
        return Pushed::of($this->transport->call('POST', Transport::path('schedules', $name, 'run'), null, $headers)->fields);
    }

    /**
     * Its next runs, each with `at` and `local`.
     *
     * @return list<array<mixed>>
     */
    public function next(string $name, int $limit = 10): array
    {
        return $this->transport->call('GET', Transport::path('schedules', $name, 'next') . "?limit=$limit")->list('runs');
    }
}
