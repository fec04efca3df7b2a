<?php

declare(strict_types=1);

namespace Duetime;

/** A job that a worker runs: what a handler gets. Its lease is extended meanwhile. */
final class RunningJob extends Job
{
    /** The proof of the lease. */
    public readonly string $receipt;
    /** How long the lease lasts if it is not extended, such as `60s`. */
    public readonly string $lease;
    private bool $isCancelled = false;
    /** @var list<NewJob> */
    private array $added = [];

    /**
     * @param array<mixed> $fields
     * @param \Closure(): string $text
     */
    private function __construct(array $fields, \Closure $text, private readonly Transport $transport, private readonly ?Keeper $keeper)
    {
        parent::__construct($fields, $text);
        $this->receipt = (string) ($fields['receipt'] ?? '');
        $this->lease = (string) ($fields['lease'] ?? '60s');
    }

    /**
     * @internal
     * @param Keeper|null $keeper null if nobody extends the lease
     */
    public static function of(Job $job, Transport $transport, ?Keeper $keeper): self
    {
        return new self($job->fields, $job->text, $transport, $keeper);
    }

    /**
     * Whether the handler should stop: the job was cancelled, or its lease was lost. Costs no request. A cancel is known after a
     * third of the lease at most: choose a short lease if it must act fast.
     */
    public function cancelled(): bool
    {
        return $this->isCancelled || $this->keeper?->event($this->receipt) !== null;
    }

    /** @throws Cancelled if the handler should stop */
    public function stopIfCancelled(): void
    {
        if ($this->cancelled()) {
            throw new Cancelled("the job {$this->id} was cancelled");
        }
    }

    /**
     * Adds a job that is pushed in the same step in which this one succeeds, beside those of its own `then`: at most 16. If this
     * attempt fails, it is dropped.
     */
    public function followWith(NewJob $job): void
    {
        $this->added[] = $job;
    }

    /**
     * @internal
     * @return list<NewJob>
     */
    public function added(): array
    {
        return $this->added;
    }

    /**
     * Shows how far the handler is, and extends the lease.
     *
     * @param int $percent 0 to 100
     * @param string|null $note up to 1,024 bytes
     * @throws Error\LeaseLost
     */
    public function progress(int $percent, ?string $note = null): void
    {
        $body = ['percent' => $percent] + ($note === null ? [] : ['note' => $note]);
        $answer = $this->transport->call('POST', "/v1/leases/{$this->receipt}/progress", Json::object($body));
        $this->isCancelled = $this->isCancelled || ($answer->fields['cancel_requested'] ?? false);
    }
}
