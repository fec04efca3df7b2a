<?php

declare(strict_types=1);

namespace Duetime;

use Duetime\Error\{NotFound, Unavailable};
use Duetime\Http\Http;

/**
 * Pushes jobs, and finds, changes and cancels them. Every call is repeated by itself as long as that is safe; what fails in the
 * end throws a `DuetimeError`. One client has one connection, which it reuses.
 */
final class Client
{
    /** At most this many jobs in one request, so that a busy server answers within the time of a try. It takes 10,000. */
    private const BATCH = 1_000;
    /** At most this many bytes of JSON in one request, unless one job is larger. */
    private const BATCH_BYTES = 48 << 20;

    /** Counts, settings and pauses of queues. */
    public readonly Queues $queues;
    /** Recurring jobs. */
    public readonly Schedules $schedules;
    /** For the rest of the HTTP API: `$client->transport->call('GET', '/v1/workers')->fields`. */
    public readonly Transport $transport;

    /**
     * @param string|list<string>|null $server by default `DUETIME_SERVER`, else http://127.0.0.1:7300. Several (a list, or with
     *     commas) are tried in turn
     * @param string|null $token by default `DUETIME_TOKEN`
     * @param float $timeout seconds for one try of a call
     * @param float $deadline seconds for a call with all its repeats
     * @param float $pushDeadline seconds for a push with its repeats. A web request waits for it, so it is shorter
     * @param int $pushTries how often a push is sent at most
     * @param string|null $ca file with the certificates that a server's may be signed by, instead of the system's
     * @param Http|null $http instead of ext-curl, such as `Psr18Http`
     */
    public function __construct(
        string|array|null $server = null,
        ?string $token = null,
        float $timeout = 5.0,
        float $deadline = 30.0,
        private readonly float $pushDeadline = 10.0,
        private readonly int $pushTries = 2,
        ?string $ca = null,
        ?Http $http = null,
    ) {
        $this->transport = new Transport($server, $token, $timeout, $deadline, $ca, $http);
        $this->queues = new Queues($this->transport);
        $this->schedules = new Schedules($this->transport);
    }

    /**
     * Pushes one job. When this returns, the job is recorded. `NewJob` describes the options.
     *
     * @param string|array{debounce: string, at_latest?: string}|null $onConflict
     * @param list<string> $tags
     * @param string|array<string, mixed>|null $retry
     * @param string|array<string, string>|null $whenExhausted
     * @param array<string, mixed>|null $target
     * @param array<string, string> $meta
     * @param list<NewJob> $then
     * @param list<NewJob> $otherwise
     * @throws Error\Invalid that names the field
     * @throws Error\Conflict with `onConflict: 'reject'`, if the key is held: `holder` has it
     * @throws Unavailable if no server recorded it in time. It may have been recorded: a repeat with the same origin makes no second job
     */
    public function push(
        string $queue,
        mixed $payload = null,
        ?string $kind = null,
        ?string $key = null,
        string|array|null $onConflict = null,
        ?string $keyUntil = null,
        string|int|float|\DateInterval|null $delay = null,
        \DateTimeInterface|string|null $dueAt = null,
        array $tags = [],
        ?int $priority = null,
        string|array|null $retry = null,
        ?float $jitter = null,
        ?int $maxAttempts = null,
        string|int|float|\DateInterval|null $maxAge = null,
        ?int $maxCrashes = null,
        string|array|null $whenExhausted = null,
        string|int|float|\DateInterval|null $lease = null,
        string|int|float|\DateInterval|null $expires = null,
        ?string $origin = null,
        ?array $target = null,
        ?string $trace = null,
        array $meta = [],
        array $then = [],
        array $otherwise = [],
    ): Pushed {
        return $this->pushJob(new NewJob($queue, $payload, $kind, $key, $onConflict, $keyUntil, $delay, $dueAt, $tags, $priority, $retry,
            $jitter, $maxAttempts, $maxAge, $maxCrashes, $whenExhausted, $lease, $expires, $origin, $target, $trace, $meta, $then, $otherwise));
    }

    /** @throws DuetimeError as `push` */
    public function pushJob(NewJob $job): Pushed
    {
        $answer = $this->sendPush($job->json());
        // With an origin of its own, only an earlier try of this push can have recorded it.
        $isOwn = $answer->tries > 1 && $job->origin === null && ($answer->fields['outcome'] ?? null) === 'repeated';
        return $answer->read(static fn (array $fields): Pushed => Pushed::of(($isOwn ? ['outcome' => 'created'] : []) + $fields));
    }

    /**
     * Pushes many jobs, in batches. A job that is refused does not affect the others: its element is the error, so check each.
     *
     * @param iterable<NewJob> $jobs
     * @return list<Pushed|DuetimeError> in the same order
     * @throws DuetimeError if not even the first batch could be sent; later ones are errors of their elements
     */
    public function pushMany(iterable $jobs): array
    {
        /** @var array<int, string> $batch */
        $batch = [];
        [$answers, $bytes, $at, $isFirst] = [[], 0, 0, true];
        foreach ($jobs as $job) {
            try {
                $json = $job->json();
            } catch (Error\Invalid $error) {
                $answers[$at++] = $error;
                continue;
            }
            if (\count($batch) === self::BATCH || ($batch !== [] && $bytes + \strlen($json) > self::BATCH_BYTES)) {
                $answers += $this->sendBatch($batch, $isFirst);
                [$batch, $bytes, $isFirst] = [[], 0, false];
            }
            $batch[$at++] = $json;
            $bytes += \strlen($json);
        }
        $answers += $this->sendBatch($batch, $isFirst);
        ksort($answers);
        return array_values($answers);
    }

    /** @throws NotFound if there is no such job, or its record has expired */
    public function get(string $id): Job
    {
        return $this->transport->call('GET', Transport::path('jobs', $id))->job();
    }

    /** The live job with this key, or else the one that ended last, or null. */
    public function find(string $queue, string $key): ?Job
    {
        $last = null;
        foreach ($this->jobs(queue: $queue, key: $key) as $job) {
            if (!$job->hasEnded()) {
                return $job;
            }
            $last = $last === null || $job->fields['finished_at'] > $last->fields['finished_at'] ? $job : $last;
        }
        return $last;
    }

    /**
     * All jobs that match, read in pages as you go on. A job that changes meanwhile can be missing or come twice.
     *
     * @param string|list<string>|null $state `scheduled`, `ready`, `running`, `succeeded`, `failed`, `cancelled`, `retrying`
     * @param int $page how many are read at once, 1 to 1,000
     * @return \Generator<int, Job>
     */
    public function jobs(
        ?string $queue = null,
        string|array|null $state = null,
        ?string $tag = null,
        ?string $key = null,
        ?string $kind = null,
        \DateTimeInterface|string|null $dueFrom = null,
        \DateTimeInterface|string|null $dueTo = null,
        int $page = 100,
    ): \Generator {
        $query = [
            'queue' => $queue,
            'state' => $state,
            'tag' => $tag,
            'key' => $key,
            'kind' => $kind,
            'due_from' => $dueFrom === null ? null : Duration::instant($dueFrom),
            'due_to' => $dueTo === null ? null : Duration::instant($dueTo),
            'limit' => (string) $page,
        ];
        do {
            $answer = $this->transport->call('GET', '/v1/jobs' . self::query($query));
            foreach ($answer->jobs('jobs') as $job) {
                yield $job;
            }
            $query['cursor'] = $answer->next();
        } while ($query['cursor'] !== null);
    }

    /**
     * Why a job does not run.
     *
     * @return array<mixed> `state` and `reasons`, each with `code` and `detail`
     */
    public function why(string $id): array
    {
        return $this->transport->call('GET', Transport::path('jobs', $id, 'why'))->fields;
    }

    /**
     * The job once it has ended, with its result.
     *
     * @param float $timeout seconds
     * @throws Unavailable with the code `timeout` if it has not ended by then
     */
    public function wait(string $id, float $timeout = 30.0): Job
    {
        $until = Clock::now() + $timeout;
        do {
            $wait = max(0, min(20_000, (int) (($until - Clock::now()) * 1000)));
            $path = Transport::path('jobs', $id) . "?wait={$wait}ms";
            $job = $this->transport->call('GET', $path, timeout: $wait / 1000 + $this->transport->timeout)->job();
            if ($job->hasEnded()) {
                return $job;
            }
        } while (Clock::now() < $until);
        throw new Unavailable('timeout', 0, "the job $id has not ended within $timeout s: it is {$job->state}");
    }

    /**
     * @param int|null $ifVersion here and in the other changes of one job: only if the job still has this version. Otherwise `Conflict`
     *     (`version_mismatch`) is thrown, or `Unavailable` if an answer was lost, so that nobody knows which change was made
     * @throws NotFound
     * @throws Error\Conflict
     */
    public function cancel(string $id, ?int $ifVersion = null): CancelOutcome
    {
        $answer = $this->transport->call('POST', Transport::path('jobs', $id, 'cancel'), null, self::match($ifVersion));
        $outcome = $answer->read(static fn (array $fields): CancelOutcome => CancelOutcome::from((string) ($fields['outcome'] ?? '')));
        if ($outcome === CancelOutcome::AlreadyFinished && $answer->tries > 1 && $this->get($id)->state === 'cancelled') {
            // The answer to the first try was lost.
            return CancelOutcome::Cancelled;
        }
        return $outcome;
    }

    /** Cancels the live job with this key, if there is one. */
    public function cancelByKey(string $queue, string $key): CancelOutcome
    {
        $began = Clock::now();
        $answer = $this->transport->call('POST', '/v1/jobs/cancel', Json::object(['queue' => $queue, 'key' => $key]));
        foreach ([CancelOutcome::Cancelled, CancelOutcome::Requested, CancelOutcome::AlreadyFinished] as $outcome) {
            if (($answer->fields[$outcome->value] ?? 0) > 0) {
                return $outcome;
            }
        }
        if ($answer->tries > 1) {
            // The answer to the first try may be lost. By the server's clock: was a job with this key cancelled since this call began?
            $since = (strtotime($answer->headers['date'] ?? '') ?: time()) - (Clock::now() - $began) - 1;
            foreach ($this->jobs(queue: $queue, state: 'cancelled', key: $key) as $job) {
                if (strtotime((string) $job->fields['finished_at']) >= $since) {
                    return CancelOutcome::Cancelled;
                }
            }
        }
        return CancelOutcome::None;
    }

    /** @return array<string, int> how many were `cancelled`, `cancel_requested` … */
    public function cancelByTag(string $tag, ?string $queue = null): array
    {
        return $this->cancelAll(array_filter(['tag' => $tag, 'queue' => $queue], 'is_string'));
    }

    /**
     * @param array<string, mixed> $selection `queue`, `state`, `tag`, `key`, `kind`, `due_from`, `due_to`
     * @return array<string, int> counts by outcome
     */
    public function cancelAll(array $selection): array
    {
        return $this->counts('cancel', $selection);
    }

    /**
     * Starts all jobs of a state that match again, `failed` by default.
     *
     * @param array<string, mixed> $selection as for `cancelAll`
     * @param string|int|float|\DateInterval|null $spread distributes them over this time, at most 24 h
     * @return array<string, int>
     */
    public function retryAll(array $selection, string|int|float|\DateInterval|null $spread = null): array
    {
        return $this->counts('retry' . self::query(self::spread($spread)), $selection);
    }

    /**
     * Deletes the records of all jobs that match.
     *
     * @param array<string, mixed> $selection as for `cancelAll`
     * @return array<string, int>
     */
    public function deleteAll(array $selection): array
    {
        return $this->counts('delete', $selection);
    }

    /**
     * Makes all waiting jobs that match due after a delay, or at an instant. With a delay of 0 they run now.
     *
     * @param array<string, mixed> $selection as for `cancelAll`
     * @param string|int|float|\DateInterval|null $spread distributes them over this time from then on, at most 24 h
     * @return array<string, int>
     */
    public function rescheduleAll(
        array $selection,
        string|int|float|\DateInterval|null $delay = null,
        \DateTimeInterface|string|null $dueAt = null,
        string|int|float|\DateInterval|null $spread = null,
    ): array {
        return $this->counts('reschedule', ['selection' => new RawJson(Json::object($selection))] + self::due($delay, $dueAt) + self::spread($spread));
    }

    /**
     * Makes a waiting job due after a delay, or at an instant.
     *
     * @throws NotFound
     * @throws Error\Conflict if it runs or has ended
     */
    public function reschedule(
        string $id,
        string|int|float|\DateInterval|null $delay = null,
        \DateTimeInterface|string|null $dueAt = null,
        ?int $ifVersion = null,
    ): Job {
        return $this->patch($id, self::due($delay, $dueAt), $ifVersion);
    }

    /**
     * Changes a waiting job. What is null stays.
     *
     * @throws NotFound
     * @throws Error\Conflict if it runs or has ended
     */
    public function change(string $id, mixed $payload = null, ?int $priority = null, ?int $ifVersion = null): Job
    {
        $changes = array_filter(['priority' => $priority], 'is_int');
        if ($payload !== null) {
            $changes += $payload instanceof Bytes ? ['payload_base64' => base64_encode($payload->bytes)] : ['payload' => $payload];
        }
        return $this->patch($id, $changes, $ifVersion);
    }

    /**
     * Makes a waiting job due now.
     *
     * @throws NotFound
     * @throws Error\Conflict if it runs or has ended
     */
    public function run(string $id, ?int $ifVersion = null): Job
    {
        return $this->act($id, 'run', $ifVersion, ['job_running', 'already_finished']);
    }

    /**
     * Starts a job that has ended again, from attempt 0.
     *
     * @throws NotFound
     * @throws Error\Conflict if it has not ended, or another job has its key
     */
    public function retry(string $id, ?int $ifVersion = null): Job
    {
        return $this->act($id, 'retry', $ifVersion, ['job_live']);
    }

    /**
     * Deletes the record of a job. One that waits never runs.
     *
     * @throws NotFound
     * @throws Error\Conflict if it runs
     */
    public function delete(string $id, ?int $ifVersion = null): void
    {
        $this->transport->call('DELETE', Transport::path('jobs', $id), null, self::match($ifVersion), done: ['not_found']);
    }

    /**
     * Calls while it holds the lock, extends it meanwhile, and releases it.
     *
     * @template T
     * @param \Closure(Lock): T $call gets the lock with its fence
     * @param string|int|float|\DateInterval $ttl how long others wait if this process dies; 100 ms to 24 h
     * @param string|int|float|\DateInterval $wait for another holder; not by default
     * @param bool $extends whether a child process extends it; without, it ends after `$ttl`
     * @return T
     * @throws Error\LockHeld if another holder has it for longer than `$wait`
     * @throws Error\LockLost after the call, if the lock was lost before the call ended
     */
    public function lock(
        string $name,
        \Closure $call,
        string|int|float|\DateInterval $ttl = '15s',
        string|int|float|\DateInterval $wait = 0,
        bool $extends = true,
    ): mixed {
        $lock = Lock::acquire($this->transport, $name, $ttl, $wait, $extends);
        try {
            $result = $call($lock);
        } catch (\Throwable $error) {
            try {
                $lock->release();
            } catch (DuetimeError) {
                // The first error says more. The lock ends after its time to live.
            }
            throw $error;
        }
        $lock->release();
        return $result;
    }

    /**
     * What happens to jobs, as it happens. It never ends by itself: a broken connection is made again. Events in between are lost.
     *
     * @param string|list<string> $queue names or patterns such as `mail.*`; all by default
     * @param string|list<string> $what such as `started`, `succeeded`, `failed`; all by default
     * @param string|int|float|\DateInterval|null $every only an event `activity`, at most once in this time (100 ms to 10 s), if anything
     *     of it happened
     * @return \Generator<int, array<mixed>> with `type` (`what`, or `subscribed`, `lost`, `activity`), `id`, `queue`, `kind`, `state` …
     */
    public function events(string|array $queue = [], string|array $what = [], string|int|float|\DateInterval|null $every = null): \Generator
    {
        $query = ['queue' => $queue, 'what' => $what, 'every' => $every === null ? null : Duration::text($every, 'every')];
        return (new Events($this->transport))->read(self::query($query));
    }

    /** @param array<string, string|list<string>|null> $query */
    private static function query(array $query): string
    {
        $pairs = [];
        foreach ($query as $name => $values) {
            foreach ((array) $values as $value) {
                $pairs[] = $name . '=' . rawurlencode($value);
            }
        }
        return $pairs === [] ? '' : '?' . implode('&', $pairs);
    }

    /**
     * @param array<int, string> $batch
     * @param bool $throws if it could not be sent; else that is the error of each element
     * @return array<int, Pushed|DuetimeError> by the keys of the batch
     */
    private function sendBatch(array $batch, bool $throws): array
    {
        if ($batch === []) {
            return [];
        }
        try {
            $answers = $this->sendPush('[' . implode(',', $batch) . ']')->read(static fn (array $all): array => array_map(
                static fn (array $one): Pushed|DuetimeError => isset($one['outcome']) ? Pushed::of($one) : DuetimeError::problem($one),
                \count($all) === \count($batch) ? array_values($all) : throw new \ValueError('as many as were pushed'),
            ));
        } catch (DuetimeError $error) {
            $answers = $throws ? throw $error : array_fill(0, \count($batch), $error);
        }
        return array_combine(array_keys($batch), $answers);
    }

    private function sendPush(string $json): Answer
    {
        return $this->transport->call('POST', '/v1/jobs', $json, deadline: $this->pushDeadline, tries: $this->pushTries);
    }

    /**
     * @param array<string, mixed> $body
     * @return array<string, int>
     */
    private function counts(string $verb, array $body): array
    {
        $counts = [];
        foreach ($this->transport->call('POST', "/v1/jobs/$verb", Json::object($body))->fields as $outcome => $count) {
            $counts[(string) $outcome] = (int) $count;
        }
        return $counts;
    }

    /** @param list<string> $done codes with which a repeat is answered if the answer to an earlier try was lost */
    private function act(string $id, string $verb, ?int $ifVersion, array $done): Job
    {
        $answer = $this->transport->call('POST', Transport::path('jobs', $id, $verb), null, self::match($ifVersion), done: $done);
        return $answer->fields === [] ? $this->get($id) : $answer->job();
    }

    /** @return array<string, string> */
    private static function due(string|int|float|\DateInterval|null $delay, \DateTimeInterface|string|null $dueAt): array
    {
        return ($delay === null ? [] : ['delay' => Duration::text($delay)]) + ($dueAt === null ? [] : ['due_at' => Duration::instant($dueAt)]);
    }

    /** @return array<string, string> */
    private static function spread(string|int|float|\DateInterval|null $spread): array
    {
        return $spread === null ? [] : ['spread' => Duration::text($spread, 'spread')];
    }

    /** @param array<string, mixed> $changes */
    private function patch(string $id, array $changes, ?int $ifVersion): Job
    {
        return $this->transport->call('PATCH', Transport::path('jobs', $id), Json::object($changes), self::match($ifVersion))->job();
    }

    /** @return list<string> */
    private static function match(?int $version): array
    {
        return $version === null ? [] : ["if-match: \"$version\""];
    }
}
