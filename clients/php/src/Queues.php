<?php

declare(strict_types=1);

namespace Duetime;

/** The queues of the server: `$client->queues`. Queues with the fields of the HTTP API (`ready`, `scheduled`, `settings` …). */
final class Queues
{
    public function __construct(private readonly Transport $transport)
    {
    }

    /** @return \Generator<int, array<mixed>> */
    public function list(): \Generator
    {
        return Page::all($this->transport, '/v1/queues', 'queues');
    }

    /** @return array<mixed> */
    public function get(string $queue): array
    {
        return $this->transport->call('GET', Transport::path('queues', $queue))->fields;
    }

    /**
     * Changes the settings that are named; null resets one to its default.
     *
     * @param array<string, mixed> $settings such as `["lease" => "5m", "max_running" => 20]`
     * @return array<mixed>
     */
    public function set(string $queue, array $settings): array
    {
        return $this->transport->call('PUT', Transport::path('queues', $queue), Json::object($settings))->fields;
    }

    /**
     * Stops handing out its jobs.
     *
     * @param string|int|float|\DateInterval|null $for without an end by default
     * @param \DateTimeInterface|string|null $until instead of `$for`
     * @return array<mixed>
     */
    public function pause(string $queue, string|int|float|\DateInterval|null $for = null, \DateTimeInterface|string|null $until = null): array
    {
        $body = ($for === null ? [] : ['for' => Duration::text($for, 'for')]) + ($until === null ? [] : ['until' => Duration::instant($until)]);
        return $this->transport->call('POST', Transport::path('queues', $queue, 'pause'), Json::object($body))->fields;
    }

    /** @return array<mixed> */
    public function resume(string $queue): array
    {
        return $this->transport->call('POST', Transport::path('queues', $queue, 'resume'))->fields;
    }

    /** Cancels all its waiting jobs, and says how many. */
    public function purge(string $queue): int
    {
        return (int) $this->transport->call('POST', Transport::path('queues', $queue, 'purge'))->member('purged');
    }
}
