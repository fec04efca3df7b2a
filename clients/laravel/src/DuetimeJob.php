<?php

declare(strict_types=1);

namespace Duetime\Laravel;

use Duetime\{Json, RunningJob, Trace};
use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Queue\Jobs\Job;

/**
 * A leased job, as Laravel's worker sees it.
 *
 * Laravel counts a release as an attempt, so it is a failed attempt here, which is retried after its delay. A job that Laravel
 * gives up is a dead letter here, with the message, beside its row in `failed_jobs`.
 */
final class DuetimeJob extends Job implements JobContract
{
    private ?string $raw = null;
    /** @var array<mixed>|null */
    private ?array $decoded = null;
    private ?\Throwable $error = null;
    private bool $isSettled = false;

    public function __construct(
        Container $container,
        private readonly DuetimeQueue $duetime,
        public readonly RunningJob $job,
        ?string $connectionName,
        string $queue,
    ) {
        $this->container = $container;
        $this->connectionName = $connectionName ?? '';
        $this->queue = $queue;
    }

    public function getJobId(): string
    {
        return $this->job->id;
    }

    public function getRawBody(): string
    {
        return $this->raw ??= $this->job->payloadText();
    }

    /** @return array<mixed> */
    public function payload(): array
    {
        return $this->decoded ??= (array) json_decode($this->getRawBody(), true);
    }

    /** How many attempts have begun, with those that a job had before it was adopted from Redis. */
    public function attempts(): int
    {
        return self::attempt($this->job, $this->payload());
    }

    /**
     * The number of this attempt.
     *
     * @param array<mixed> $payload
     */
    public static function attempt(RunningJob $job, array $payload): int
    {
        return $job->attempt + (int) ($payload['attempts'] ?? 0);
    }

    /** Runs the handler, within the trace of its dispatch. */
    public function fire(): void
    {
        Trace::within($this->job->trace, function (): void {
            parent::fire();
        });
    }

    public function release($delay = 0): void
    {
        parent::release($delay);
        $delay = $delay instanceof \DateTimeInterface ? max(0.0, (float) $delay->format('U.u') - microtime(true)) : JobOptions::delay($delay);
        $this->settle('fail', ['message' => $this->message() ?? 'released', 'retry_after' => \Duetime\Duration::text($delay ?? 0)]);
    }

    public function delete(): void
    {
        parent::delete();
        $this->hasFailed() ? $this->settle('fail', ['message' => $this->message() ?? 'failed by hand', 'final' => true]) : $this->settle('complete');
    }

    public function fail($e = null): void
    {
        $this->failedWith($e);
        parent::fail($e);
    }

    /** Remembers why the attempt failed, for the dashboard. */
    public function failedWith(mixed $error): void
    {
        $this->error = $error instanceof \Throwable ? $error : null;
    }

    /** Whether somebody cancelled the job while it runs, or its lease was lost: the handler should return. */
    public function cancelled(): bool
    {
        return $this->job->cancelled();
    }

    /** The worker is done with it, whatever its handler did. */
    public function abandon(): void
    {
        if (!$this->isSettled) {
            $this->duetime->drop($this->job);
        }
    }

    private function message(): ?string
    {
        return $this->error === null ? null : Json::message($this->error::class . ': ' . $this->error->getMessage());
    }

    /** @param array<string, mixed> $body */
    private function settle(string $verb, array $body = []): void
    {
        if (!$this->isSettled) {
            $this->isSettled = true;
            $this->duetime->settle($this->job, $verb, $body);
        }
    }
}
