<?php

declare(strict_types=1);

namespace Duetime\Laravel;

use Duetime\{Client, Clock, Duration, DuetimeError, Job, Json, Keeper, NewJob, RunningJob};
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Queue\{ClearableQueue, Queue as QueueContract};
use Illuminate\Queue\{Queue, QueueManager};
use Psr\Log\LoggerInterface;

/**
 * Laravel's queue on Duetime: pushes, and hands jobs to Laravel's worker.
 *
 * A worker of several queues (`--queue=high,low`) asks for all of them in one request, in strict order, and waits for all at once.
 * Laravel asks for each in turn; so the first question of a round is answered from all, and the others with nothing.
 *
 * A child process (`Duetime\Keeper`) extends the lease of a job while it runs, and reports outcomes while the next job runs, many in
 * one request. Short jobs are fetched several at once. What has not begun within `PATIENCE`, or when this process ends or is killed, is
 * given back by the child, even if this process is busy. This process does not begin it any more, some time before.
 *
 * If both are killed at once, an attempt of what they had fetched counts. Therefore nothing is fetched ahead behind a job in its last
 * attempt, and such a job that came along is given back at once: a job that never began must not be in `failed_jobs`.
 */
final class DuetimeQueue extends Queue implements ClearableQueue, QueueContract
{
    /** Seconds after which a job that was fetched and has not begun is given back. */
    private const PATIENCE = 0.25;
    /** Seconds after which it is not begun any more. It must be told to the child before it loses its patience. */
    private const FRESH = 0.15;
    private const LATEST = 0.2;
    /** Seconds of work that are fetched at once. If machine or container are killed, an attempt of these jobs counts, although it had not begun. */
    private const AHEAD = 0.02;

    private readonly Keeper $keeper;
    private readonly string $worker;
    private ?DuetimeJob $running = null;
    /** @var list<string> the queues of this round of the worker */
    private array $round = [];
    private bool $isAsked = false;
    private bool $isAway = false;
    /** @var list<RunningJob> jobs that were fetched */
    private array $fetched = [];
    private float $fetchedAt = 0.0;
    private int $begun = 0;
    /** How many are fetched next time. */
    private int $limit = 1;
    /** Attempts of a job that has no number of its own; 0: no limit. */
    private int $tries = 1;
    /** Whether a job of the last fetch was in its last attempt. */
    private bool $isLast = false;
    /** Whether outcomes may be on their way. */
    private bool $isDirty = false;
    /** @var array{queues: list<string>, limit: int, free: int, wait: string, worker: string, request_id: string}|null a reserve that had no answer */
    private ?array $unanswered = null;

    public function __construct(
        public readonly Client $client,
        private readonly string $default,
        private readonly float $lease,
        private readonly float $blockFor,
        private readonly int $prefetch = 1,
        bool $dispatchAfterCommit = false,
    ) {
        $this->dispatchAfterCommit = $dispatchAfterCommit;
        $this->keeper = new Keeper($client->transport);
        $this->worker = gethostname() . '-' . getmypid();
    }

    /**
     * All its jobs that have not ended.
     *
     * @param string|null $queue
     */
    public function size($queue = null): int
    {
        $counts = $this->counts($queue);
        return (int) $counts['ready'] + (int) $counts['scheduled'] + (int) $counts['running'];
    }

    /** @param string|null $queue */
    public function pendingSize($queue = null): int
    {
        return (int) $this->counts($queue)['ready'];
    }

    /** @param string|null $queue */
    public function delayedSize($queue = null): int
    {
        return (int) $this->counts($queue)['scheduled'];
    }

    /** @param string|null $queue */
    public function reservedSize($queue = null): int
    {
        return (int) $this->counts($queue)['running'];
    }

    /** @param string|null $queue */
    public function creationTimeOfOldestPendingJob($queue = null): ?int
    {
        $counts = $this->counts($queue);
        $oldest = (int) $counts['ready'] > 0 ? $counts['oldest_due_at'] ?? null : null;
        return \is_string($oldest) ? Duration::when($oldest)->getTimestamp() : null;
    }

    public function push($job, $data = '', $queue = null)
    {
        return $this->enqueue(null, $job, $data, $queue);
    }

    public function later($delay, $job, $data = '', $queue = null)
    {
        return $this->enqueue($delay, $job, $data, $queue);
    }

    public function pushRaw($payload, $queue = null, array $options = [])
    {
        /** @var \DateTimeInterface|\DateInterval|int|null $delay */
        $delay = $options['delay'] ?? null;
        return $this->client->pushJob($this->newJob($payload, $queue, $delay, null))->id;
    }

    /**
     * In one request, unless they wait for a commit.
     *
     * @param array<mixed> $jobs
     * @param mixed $data
     * @param string|null $queue
     * @psalm-suppress TooManyArguments the delay is an argument since Laravel 11
     */
    public function bulk($jobs, $data = '', $queue = null): void
    {
        $new = [];
        /** @var \Closure|string|object $job */
        foreach ($jobs as $job) {
            /** @var \DateTimeInterface|\DateInterval|int|null $delay */
            $delay = \is_object($job) ? $job->delay ?? null : null;
            if ($this->shouldDispatchAfterCommit($job)) {
                $this->enqueue($delay, $job, $data, $queue);
            } else {
                $new[] = $this->newJob($this->createPayload($job, $this->getQueue($queue), $data, $delay), $queue, $delay, $job);
            }
        }
        foreach ($this->client->pushMany($new) as $answer) {
            if ($answer instanceof DuetimeError) {
                throw $answer;
            }
        }
    }

    /** A worker begins to ask for jobs of these queues, with this `--tries`. */
    public function beginRound(?string $queues, int $tries = 1): void
    {
        $this->tries = $tries;
        $this->round = $queues === null || $queues === '' ? [$this->default] : array_map(fn (string $queue): string => $this->getQueue($queue), explode(',', $queues));
        $this->isAsked = false;
        $this->keeper->launch();
    }

    /** @param string|null $queue */
    public function pop($queue = null): ?DuetimeJob
    {
        // A job that was neither deleted nor released waits for the end of its lease.
        $this->running?->abandon();
        $this->running = null;
        $queue = $this->getQueue($queue);
        $isInRound = \in_array($queue, $this->round, true);
        $job = $isInRound ? $this->fetched() : null;
        if ($job === null) {
            if ($isInRound && $this->isAsked) {
                return null;
            }
            $this->isAsked = $isInRound;
            $queues = array_values(array_filter($isInRound ? $this->round : [$queue], fn (string $one): bool => !$isInRound || !$this->isPaused($one)));
            $job = $queues === [] ? null : $this->fetch($queues, $isInRound);
        }
        if ($job === null) {
            return null;
        }
        return $this->running = new DuetimeJob($this->container, $this, $job, $this->connectionName, $job->queue);
    }

    /**
     * Cancels all waiting jobs. Those that run go on.
     *
     * @param string|null $queue
     * @return int how many
     */
    public function clear($queue): int
    {
        return $this->client->queues->purge($this->getQueue($queue));
    }

    /** The job that runs in this process. */
    public function running(): ?DuetimeJob
    {
        return $this->running;
    }

    public function getQueue(?string $queue): string
    {
        return $queue === null || $queue === '' ? $this->default : $queue;
    }

    /**
     * Ends the lease of a job.
     *
     * @param array<string, mixed> $body
     */
    public function settle(RunningJob $job, string $verb, array $body = []): void
    {
        $this->isDirty = true;
        $this->keeper->settle($job->receipt, $verb, $body);
    }

    /** Waits until the outcomes of all jobs that have ended are reported. */
    public function sync(): void
    {
        if ($this->isDirty) {
            $this->isDirty = false;
            foreach ($this->keeper->sync() as $refused) {
                $this->report(DuetimeError::problem(['detail' => "the outcome of the job {$refused['id']} is dropped: {$refused['detail']}"] + $refused));
            }
        }
    }

    /** Nobody extends its lease any more. */
    public function drop(RunningJob $job): void
    {
        $this->keeper->drop($job->receipt);
    }

    /**
     * @param \DateTimeInterface|\DateInterval|int|null $delay
     * @param \Closure|string|object $job
     * @psalm-suppress TooManyArguments the delay is an argument since Laravel 11
     * @psalm-suppress PossiblyNullArgument Laravel's own drivers do the same
     */
    private function enqueue(mixed $delay, mixed $job, mixed $data, ?string $queue): mixed
    {
        $payload = $this->createPayload($job, $this->getQueue($queue), $data, $delay);
        $push = fn (string $payload, ?string $queue, \DateTimeInterface|\DateInterval|int|float|string|null $delay): string
            => $this->client->pushJob($this->newJob($payload, $queue, $delay, $job))->id;
        return $this->enqueueUsing($job, $payload, $queue, $delay, $push);
    }

    private function newJob(string $payload, ?string $queue, \DateTimeInterface|\DateInterval|int|float|string|null $delay, mixed $job): NewJob
    {
        return JobOptions::newJob($this->getQueue($queue), $payload, $delay, $job, $this->lease);
    }

    /** @return array<mixed> */
    private function counts(?string $queue): array
    {
        $this->sync();
        return $this->client->queues->get($this->getQueue($queue));
    }

    /** The next of the jobs that were fetched, unless it is too late. */
    private function fetched(): ?RunningJob
    {
        $age = static fn (float $since): float => Clock::now() - $since;
        while (($job = array_shift($this->fetched)) !== null) {
            if ($age($this->fetchedAt) < self::FRESH) {
                $this->keeper->start($job->receipt);
                if ($age($this->fetchedAt) < self::LATEST) {
                    $this->begun++;
                    return $job;
                }
            }
            // Too late: the child gives it back, or has done so.
            $this->isDirty = true;
            $this->keeper->giveBack($job->receipt);
        }
        return null;
    }

    /**
     * @param list<string> $queues
     * @param bool $isInRound whether it may wait, and fetch more than one
     */
    private function fetch(array $queues, bool $isInRound): ?RunningJob
    {
        if ($this->begun > 0) {
            // By what the last ones took.
            $each = max(1e-6, (Clock::now() - $this->fetchedAt) / $this->begun);
            $this->limit = (int) max(1, min($this->prefetch, $this->limit * 4, self::AHEAD / $each));
        }
        $this->limit = $this->isLast ? 1 : $this->limit;
        $this->begun = 0;
        $jobs = $this->reserve($queues, 0.0, $isInRound ? $this->limit : 1);
        if ($jobs === [] && !$this->isAway) {
            // Nothing to do: a good moment to know what became of the outcomes. A job that was released may be due again.
            $isChanged = $this->isDirty;
            $this->sync();
            $this->limit = 1;
            $wait = $isInRound ? $this->blockFor : 0.0;
            $jobs = $isChanged || $wait > 0 ? $this->reserve($queues, $wait, 1) : [];
        }
        $this->fetchedAt = Clock::now();
        foreach ($jobs as $n => $job) {
            $this->keeper->holdLease($job->receipt, $job->lease, null, $n === 0 ? null : self::PATIENCE);
        }
        $first = array_shift($jobs);
        $this->begun = $first === null ? 0 : 1;
        $this->isLast = $first !== null && $this->isLastAttempt($first);
        $this->fetched = [];
        foreach ($jobs as $job) {
            if ($this->isLastAttempt($job)) {
                $this->isLast = $this->isDirty = true;
                $this->keeper->giveBack($job->receipt);
            } else {
                $this->fetched[] = $job;
            }
        }
        return $first;
    }

    /** Whether Laravel's worker fails the job, rather than run it, if this attempt crashes. */
    private function isLastAttempt(RunningJob $job): bool
    {
        $about = (array) json_decode($job->payloadText(), true);
        $tries = (int) ($about['maxTries'] ?? $this->tries);
        return $tries > 0 && !isset($about['retryUntil']) && DuetimeJob::attempt($job, $about) >= $tries;
    }

    /**
     * @param list<string> $queues
     * @return list<RunningJob>
     */
    private function reserve(array $queues, float $wait, int $limit): array
    {
        // A repeat of a request that had no answer gets the jobs that the answer had. It does not wait: if they are gone, the next does.
        $body = $this->unanswered !== null && $this->unanswered['queues'] === $queues ? array_replace($this->unanswered, ['wait' => '0ms'])
            : ['queues' => $queues, 'limit' => $limit, 'free' => 1, 'wait' => Duration::text($wait), 'worker' => $this->worker, 'request_id' => bin2hex(random_bytes(12))];
        $transport = $this->client->transport;
        $timeout = Duration::seconds($body['wait'], 'wait') + $transport->timeout;
        try {
            $answer = $transport->call('POST', '/v1/reserve', Json::object($body), timeout: $timeout, deadline: $timeout, tries: \count($transport->servers));
        } catch (DuetimeError $error) {
            if (!$error->isTransient()) {
                throw $error;
            }
            $this->unanswered = $body;
            if (!$this->isAway) {
                $this->report($error);
            }
            $this->isAway = true;
            Clock::sleep(min(5.0, $error->retryAfter ?? 1.0) * random_int(500, 1_000) / 1_000);
            return [];
        }
        $this->unanswered = null;
        if ($this->isAway) {
            $this->isAway = false;
            if ($this->container->bound('log')) {
                /** @var LoggerInterface $log */
                $log = $this->container->make('log');
                $log->notice('duetime: the server is back');
            }
        }
        return array_map(fn (Job $job): RunningJob => RunningJob::of($job, $transport, $this->keeper), $answer->jobs('leases'));
    }

    /** Laravel 12 and later pause queues by themselves (`queue:pause`). */
    private function isPaused(string $queue): bool
    {
        /** @var QueueManager|null $queues */
        $queues = $this->container->bound('queue') ? $this->container->make('queue') : null;
        return $queues !== null && method_exists($queues, 'isPaused') && (bool) $queues->isPaused($this->connectionName, $queue);
    }

    private function report(\Throwable $error): void
    {
        if ($this->container->bound(ExceptionHandler::class)) {
            /** @var ExceptionHandler $handler */
            $handler = $this->container->make(ExceptionHandler::class);
            $handler->report($error);
        }
    }
}
