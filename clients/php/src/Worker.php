<?php

declare(strict_types=1);

namespace Duetime;

use Duetime\Error\{Invalid, LeaseLost};
use Duetime\Http\Aborted;
use Psr\Log\LoggerInterface;

/**
 * Runs jobs, one at a time. Start as many processes as should run at the same time.
 *
 * A child process (`Keeper`) extends the lease while a handler runs, whatever it does. Signals need ext-pcntl: the first SIGTERM or
 * SIGINT lets the running job finish until the stop deadline, then it is released and the process exits; a second one does so at
 * once. PHP learns of a signal when a blocking call, such as a query, returns. A process that is blocked a second after its job was
 * released is killed.
 */
final class Worker
{
    /** How long a job of a kind without a handler is given back for, so that another worker can take it. */
    private const UNKNOWN_KIND = '5s';
    /** Seconds for the outcome of a job whose handler has ended the process. */
    private const EXIT_DEADLINE = 60.0;
    /**
     * The server keeps a result of 1 MiB, and refuses more. What is far beyond is not sent: on a slow connection no try would end in
     * time. In bytes.
     */
    private const RESULT_MAX = 4 << 20;
    /** The longest pause that a server can ask for, in seconds. */
    private const PAUSE_MAX = 30.0;

    /** @var array<string, callable(RunningJob): mixed> */
    private array $handlers = [];
    /** @var list<callable(RunningJob, \Closure(RunningJob): mixed): mixed> */
    private array $around = [];
    /** @var array<array-key, int> by queue: PHP makes a name of digits a number */
    private readonly array $weights;
    private readonly bool $isWeighted;
    private readonly Keeper $keeper;
    private readonly Transport $transport;
    private readonly string $name;
    private ?RunningJob $running = null;
    private int $jobs = 0;
    private int $stops = 0;
    private bool $isAway = false;
    private bool $wasAccepted = false;
    private float $stopAt = \INF;
    private bool $watchesExit = false;

    /**
     * @param string|list<string>|array<string, int> $queues a list is served in strict order; weights (`["urgent" => 5, "mail" =>
     *     1]`) give each queue its share, so that none starves
     * @param string|null $name in the list of workers; host and process id by default
     * @param string|int|float|null $lease instead of that of the job or its queue (60 s), 1 s to 12 h. A cancel is known after a
     *     third of it
     * @param float $pollWait seconds for which a request waits for a job, 0 to 60
     * @param float $stopDeadline seconds for which a running job may go on after SIGTERM
     * @param int|null $maxJobs stops after so many jobs
     * @param float|null $maxSeconds stops after so many seconds, once the running job has ended
     * @param int|null $memoryLimit stops when the process has more than so many MiB after a job
     * @param float|null $timeLimit seconds that one job may take. Then it fails, and the process is killed
     * @param string|null $healthFile touched while the worker is alive: at least every 25 s. A supervisor can look at its age
     * @param LoggerInterface|null $logger standard error by default
     */
    public function __construct(
        private readonly Client $client,
        string|array $queues = 'default',
        ?string $name = null,
        private readonly string|int|float|null $lease = null,
        private readonly float $pollWait = 20.0,
        private readonly float $stopDeadline = 25.0,
        private readonly ?int $maxJobs = null,
        private readonly ?float $maxSeconds = null,
        private readonly ?int $memoryLimit = null,
        private readonly ?float $timeLimit = null,
        private readonly ?string $healthFile = null,
        private readonly ?LoggerInterface $logger = null,
    ) {
        $queues = (array) $queues;
        $this->isWeighted = !array_is_list($queues);
        $weights = [];
        foreach ($queues as $queue => $weight) {
            if (!$this->isWeighted) {
                $weights[(string) $weight] = 1;
            } elseif (\is_int($weight) && $weight > 0) {
                $weights[$queue] = $weight;
            } else {
                throw Invalid::field('queues', 'weights of 1 or more', json_encode($queues) ?: '');
            }
        }
        if ($weights === []) {
            throw Invalid::field('queues', 'at least one queue', '[]');
        }
        $this->weights = $weights;
        $this->transport = $client->transport;
        $this->keeper = new Keeper($this->transport, $healthFile);
        $this->name = $name ?? gethostname() . '-' . getmypid();
    }

    /**
     * What it returns is the job's result: a value with a form in JSON, `RawJson`, `Bytes`, or null for none. Any `Throwable` is a
     * failed attempt; `Fatal`, `RetryAfter`, `Release` and `Park` say more.
     *
     * @param string $kind `*` for every kind without a handler of its own. Such jobs are otherwise given back for 5 s
     * @param callable(RunningJob): mixed $handler
     * @return $this
     */
    public function handle(string $kind, callable $handler): self
    {
        $this->handlers[$kind] = $handler;
        return $this;
    }

    /**
     * Runs your code around every handler, for logs, traces or transactions. The first one added is the outermost.
     *
     * @param callable(RunningJob, \Closure(RunningJob): mixed): mixed $middleware calls the second argument with the first, and
     *     returns what that returns
     * @return $this
     */
    public function around(callable $middleware): self
    {
        $this->around[] = $middleware;
        return $this;
    }

    /**
     * Works until it is stopped or a limit is reached. A server that is unavailable is waited for.
     *
     * @return int how many jobs it ran
     * @throws DuetimeError if the server refuses the requests of this worker, such as its token
     */
    public function run(): int
    {
        $this->log('info', 'working on ' . implode(', ', array_keys($this->weights)));
        $jobs = $this->loop(false);
        $this->log('info', "stopped after $jobs jobs");
        return $jobs;
    }

    /** Works until nothing is due. */
    public function drain(): int
    {
        return $this->loop(true);
    }

    /** Ends `run` once the running job has ended. */
    public function stop(): void
    {
        $this->stops = max(1, $this->stops);
    }

    /**
     * For a health check within the process.
     *
     * @return array{state: string, job: string|null, jobs: int} `state` is `idle`, `running`, `stopping` or `unavailable`
     */
    public function health(): array
    {
        $state = match (true) {
            $this->stops > 0 => 'stopping',
            $this->isAway => 'unavailable',
            $this->running !== null => 'running',
            default => 'idle',
        };
        return ['state' => $state, 'job' => $this->running?->id, 'jobs' => $this->jobs];
    }

    /** Whether there is a handler for jobs of this kind. */
    public function handles(string $kind): bool
    {
        return isset($this->handlers[$kind]) || isset($this->handlers['*']);
    }

    /** Calls the handler of a job with all that is around it, and returns its result. Reports nothing to the server. */
    public function call(RunningJob $job): mixed
    {
        $call = \Closure::fromCallable($this->handlers[$job->kind] ?? $this->handlers['*']);
        foreach (array_reverse($this->around) as $middleware) {
            $call = static fn (RunningJob $job): mixed => $middleware($job, $call);
        }
        return Trace::within($job->trace, static fn (): mixed => $call($job));
    }

    private function loop(bool $drains): int
    {
        $this->stopAt = Clock::now() + ($this->maxSeconds ?? \INF);
        $before = $this->listen();
        $this->watchExit();
        $this->keeper->launch();
        $first = $this->jobs;
        try {
            while ($this->stops === 0 && Clock::now() < $this->stopAt && ($this->maxJobs === null || $this->jobs - $first < $this->maxJobs)) {
                $this->touch();
                $job = $this->reserve($drains ? 0.0 : $this->pollWait);
                if ($job !== null) {
                    $this->process($job);
                } elseif ($drains && !$this->isAway) {
                    break;
                }
                if ($this->memoryLimit !== null && memory_get_usage(true) > $this->memoryLimit << 20) {
                    $this->log('notice', "stopping: the process has more than {$this->memoryLimit} MiB");
                    break;
                }
            }
        } finally {
            $this->listenAs($before);
        }
        return $this->jobs - $first;
    }

    private function reserve(float $wait): ?RunningJob
    {
        $wait = max(0.0, min($wait, $this->stopAt - Clock::now()));
        $body = [
            'queues' => $this->order(),
            'limit' => 1,
            'worker' => $this->name,
            'request_id' => bin2hex(random_bytes(12)),
        ] + ($this->lease === null ? [] : ['lease' => Duration::text($this->lease, 'lease')]);
        $isStopped = fn (): bool => $this->stops > 0;
        for ($try = 1;; $try++) {
            try {
                // A repeat has the same request id: it gets the job of an answer that was lost. It does not wait: if that job is gone,
                // the next request does.
                $wait = $try === 1 ? $wait : 0.0;
                $timeout = $wait + $this->transport->timeout;
                $json = Json::object(['wait' => Duration::text($wait)] + $body);
                $answer = $this->transport->call('POST', '/v1/reserve', $json, [], $timeout, $timeout, \count($this->transport->servers), $isStopped);
                $job = $answer->jobs('leases')[0] ?? null;
                $this->back();
                $this->wasAccepted = true;
                return $job === null ? null : RunningJob::of($job, $this->transport, $this->keeper);
            } catch (Aborted) {
                $this->giveBack($body);
                return null;
            } catch (DuetimeError $error) {
                if (!$error->mayPass($this->wasAccepted)) {
                    throw $error;
                }
                $this->away($error);
                $this->touch();
                $until = Clock::now() + $this->pause($error, $try);
                while ($this->stops === 0 && ($left = $until - Clock::now()) > 0) {
                    Clock::sleep(min($left, 1.0));
                }
                if ($this->stops > 0 || Clock::now() >= $this->stopAt) {
                    return null;
                }
            }
        }
    }

    /**
     * The server may have leased a job to the request that was ended by a signal. A repeat tells, and the job is released.
     *
     * @param array<string, mixed> $body
     */
    private function giveBack(array $body): void
    {
        try {
            $answer = $this->transport->call('POST', '/v1/reserve', Json::object(['wait' => '0s'] + $body), [], 2.0, 2.0, 1);
            foreach ($answer->jobs('leases') as $job) {
                $this->transport->call('POST', "/v1/leases/{$job->fields['receipt']}/release", null, [], 2.0, 2.0, 1);
            }
        } catch (DuetimeError) {
            // Its lease expires.
        }
    }

    private function process(RunningJob $job): void
    {
        $this->running = $job;
        $this->jobs++;
        $this->keeper->holdLease($job->receipt, $job->lease, $this->timeLimit);
        $process = getmypid();
        [$verb, $body] = $this->outcome($job);
        if (getmypid() !== $process) {
            $this->log('error', "job {$job->id}: a process that its handler has forked returned from it, and is ended");
            exit($verb === 'complete' ? 0 : 1);
        }
        $this->settle($job, $verb, $body);
        $this->running = null;
    }

    /** @return array{string, string} how to settle the job, and the body */
    private function outcome(RunningJob $job): array
    {
        if (!$this->handles($job->kind)) {
            $this->log('warning', "job {$job->id}: no handler for the kind {$job->kind}");
            return ['release', Json::object(['delay' => self::UNKNOWN_KIND])];
        }
        try {
            $result = $this->call($job);
        } catch (\Throwable $error) {
            return $this->thrown($job, $error);
        }
        try {
            $then = $job->added() === [] ? [] : ['then' => NewJob::list($job->added())];
            $body = Json::object($then + match (true) {
                $result === null => [],
                $result instanceof Bytes => ['result_base64' => base64_encode($result->bytes)],
                default => ['result' => $result],
            });
            return \strlen($body) <= self::RESULT_MAX ? ['complete', $body]
                : $this->refused($job, 'complete', 'it was not sent: expected at most 1 MiB, got ' . \strlen($body) . ' bytes');
        } catch (\Throwable $error) {
            return $this->refused($job, 'complete', $error instanceof Invalid ? $error->detail : self::message($error));
        }
    }

    /** @return array{string, string} how to settle a job whose handler threw this, and the body */
    private function thrown(RunningJob $job, \Throwable $error): array
    {
        if ($error instanceof Cancelled) {
            // The server ends a job that was cancelled, whatever its worker says. One whose lease was lost is not ours.
            return ['release', '{}'];
        }
        $message = self::message($error);
        $priority = ($error instanceof Release || $error instanceof Park) && $error->priority !== null ? ['priority' => $error->priority] : [];
        try {
            if ($error instanceof Release) {
                return ['release', Json::object(['delay' => Duration::text($error->delay)] + $priority)];
            }
            if ($error instanceof Park) {
                return ['park', Json::object(['message' => $message] + $priority)];
            }
            if ($error instanceof RetryAfter) {
                return ['fail', Json::object(['message' => $message, 'retry_after' => Duration::text($error->delay)])];
            }
        } catch (Invalid $wrong) {
            $message .= " ({$wrong->detail})";
        }
        $this->log('warning', "job {$job->id}: $message");
        return ['fail', Json::object(['message' => $message, 'final' => $error instanceof Fatal])];
    }

    /** Reports an outcome, as long as the server may take it and no longer than until then. The lease is extended meanwhile. */
    private function settle(RunningJob $job, string $verb, string $body, float $until = \INF, bool $isRefusal = false): void
    {
        $settle = Json::object(['receipt' => $job->receipt, $verb => new RawJson($body)]);
        for ($try = 1;; $try++) {
            try {
                $answer = $this->transport->call('POST', '/v1/settle', "[$settle]", tries: \count($this->transport->servers));
                $try += $answer->tries - 1;
                $refusal = $answer->refusal(0);
                if ($refusal !== null) {
                    throw $refusal;
                }
                $this->back();
            } catch (LeaseLost) {
                // As the answer to a repeat: an earlier try has settled the job, and its answer was lost.
                if ($try === 1) {
                    $this->log('warning', "job {$job->id}: the lease was lost, so its outcome ($verb) is dropped");
                }
            } catch (Invalid $error) {
                if (!$isRefusal) {
                    $this->settle($job, ...$this->refused($job, $verb, $error->detail), until: $until, isRefusal: true);
                    return;
                }
                $this->log('error', "job {$job->id}: its outcome ($verb) was refused: {$error->detail}");
            } catch (DuetimeError $error) {
                if ($error->mayPass() && Clock::now() < $until && $this->keeper->event($job->receipt) !== 'lost') {
                    $this->away($error);
                    $this->touch();
                    Clock::sleep($this->pause($error, $try));
                    continue;
                }
                $this->log('error', "job {$job->id}: its outcome ($verb) could not be reported, so it runs again: {$error->getMessage()}");
            }
            break;
        }
        // Only now: while the outcome is on its way, the job must not go to another worker.
        $this->keeper->drop($job->receipt);
    }

    /** Seconds before the next try: as the server asks, but a worker looks again soon. */
    private function pause(DuetimeError $error, int $try): float
    {
        return min(self::PAUSE_MAX, $error->retryAfter ?? Transport::backoff($try));
    }

    /** @return array{string, string} another outcome. A result that cannot be kept will not be better next time */
    private function refused(RunningJob $job, string $verb, string $why): array
    {
        $why = Json::message(($verb === 'complete' ? 'the result' : "the outcome ($verb)") . " was refused: $why");
        $this->log('error', "job {$job->id}: $why");
        return ['fail', Json::object(['message' => $why, 'final' => $verb === 'complete'])];
    }

    private static function message(\Throwable $error): string
    {
        return Json::message($error->getMessage() !== '' ? $error->getMessage() : $error::class);
    }

    /** @return list<string> the queues, by weight if they have any: the first is drawn, then the next of those that are left */
    private function order(): array
    {
        if (!$this->isWeighted) {
            return array_map('strval', array_keys($this->weights));
        }
        [$left, $order] = [$this->weights, []];
        while ($left !== []) {
            $drawn = random_int(1, array_sum($left));
            foreach ($left as $queue => $weight) {
                $drawn -= $weight;
                if ($drawn <= 0) {
                    $order[] = (string) $queue;
                    unset($left[$queue]);
                    break;
                }
            }
        }
        return $order;
    }

    /** @return array<int, callable(int): void|int> the handlers that signals had before */
    private function listen(): array
    {
        $before = [];
        if (\function_exists('pcntl_async_signals')) {
            pcntl_async_signals(true);
            foreach ([\SIGTERM, \SIGINT] as $signal) {
                /** @var callable(int): void|int $handler */
                $handler = pcntl_signal_get_handler($signal);
                $before[$signal] = $handler;
                pcntl_signal($signal, function (): void {
                    if ($this->keeper->hasReleased()) {
                        // It sends the last signal, once it has released the job.
                        $this->log('warning', "job {$this->running?->id}: it has not ended in time, and is given back");
                        $this->running = null;
                        exit(0);
                    }
                    $this->stops++;
                    $this->keeper->stop($this->stops === 1 ? $this->stopDeadline : 0.0);
                });
            }
        }
        return $before;
    }

    /** @param array<int, callable(int): void|int> $handlers */
    private function listenAs(array $handlers): void
    {
        foreach ($handlers as $signal => $handler) {
            pcntl_signal($signal, $handler);
        }
    }

    /** A handler that exits, or runs out of memory, fails its job at once, with the reason, instead of after the lease. */
    private function watchExit(): void
    {
        if ($this->watchesExit) {
            return;
        }
        $this->watchesExit = true;
        [$reserve, $pid] = [str_repeat('x', 1 << 18), getmypid()];
        register_shutdown_function(function () use (&$reserve, $pid): void {
            $reserve = null;
            // A process that a handler has forked ends for itself.
            if ($this->running !== null && getmypid() === $pid) {
                $error = error_get_last();
                $isFatal = $error !== null && ($error['type'] & (\E_ERROR | \E_CORE_ERROR | \E_COMPILE_ERROR | \E_USER_ERROR)) !== 0;
                $why = $isFatal ? "{$error['message']} in {$error['file']}:{$error['line']}" : 'the handler ended the process';
                $this->log('error', "job {$this->running->id}: $why");
                $this->settle($this->running, 'fail', Json::object(['message' => Json::message($why)]), Clock::now() + self::EXIT_DEADLINE);
            }
        });
    }

    private function away(DuetimeError $error): void
    {
        if (!$this->isAway) {
            $this->isAway = true;
            $this->log('warning', "the server is unavailable, waiting for it: {$error->getMessage()}");
        }
    }

    private function back(): void
    {
        if ($this->isAway) {
            $this->isAway = false;
            $this->log('notice', 'the server is back');
        }
    }

    private function touch(): void
    {
        if ($this->healthFile !== null) {
            touch($this->healthFile);
        }
    }

    private function log(string $level, string $message): void
    {
        if ($this->logger !== null) {
            $this->logger->log($level, "duetime: $message");
        } else {
            // The constant STDERR is missing if the program is read from standard input.
            file_put_contents('php://stderr', 'duetime: ' . $message . "\n");
        }
    }
}
