<?php

declare(strict_types=1);

namespace Duetime\Testing;

use Duetime\{Client, Fatal, Job, Json, NewJob, Park, Release, RunningJob, Worker};
use Duetime\Http\{Http, Response};

/**
 * A server that is none: it records the pushes of a client and runs them in the test's process. Time does not pass.
 *
 *     $fake = new Fake();
 *     placeOrder($fake->client(), 4711);
 *     assert($fake->pushed('orders')[0]->key === 'order-4711');
 *     $fake->run($worker);
 *
 * It knows pushes, `get`, `find`, `jobs` by queue and key, and cancels by id and key. For everything else use `Server`.
 *
 * @phpstan-type Fields array{id: string, queue: string, kind: string, state: string, attempt: int, ...<string, mixed>}
 */
final class Fake implements Http
{
    /** @var array<array-key, Fields> by id */
    private array $jobs = [];
    private int $last = 0;

    /** A client of this fake. Calls that the fake does not know throw a `LogicException`. */
    public function client(): Client
    {
        return new Client('http://fake.invalid', '', http: $this);
    }

    /**
     * What was pushed, in order, also what was cancelled or has run.
     *
     * @return list<Job>
     */
    public function pushed(?string $queue = null): array
    {
        return array_values(array_map(self::job(...), array_filter($this->jobs, static fn (array $job): bool => $queue === null || $job['queue'] === $queue)));
    }

    /**
     * Runs each waiting job of the kinds that the worker handles once, whatever its delay, also those that handlers push.
     *
     * @return int how many
     * @throws \Throwable what a handler throws, but for `Release` and `Park`
     */
    public function run(Worker $worker): int
    {
        for ($count = 0;; $count++) {
            $waiting = array_filter($this->jobs, static fn (array $job): bool => $job['state'] === 'ready' && $worker->handles($job['kind']));
            $job = reset($waiting);
            if ($job === false) {
                return $count;
            }
            $id = $job['id'];
            $this->jobs[$id] = ['state' => 'running', 'attempt' => $job['attempt'] + 1] + $job;
            try {
                $running = RunningJob::of(self::job($this->jobs[$id]), $this->client()->transport, null);
                $result = $worker->call($running);
                $this->jobs[$id] = ['state' => 'succeeded', 'result' => $result] + $this->jobs[$id];
                $this->pushNext($this->jobs[$id], $running->added());
            } catch (Release | Park $end) {
                $isPark = $end instanceof Park;
                $priority = $end->priority === null ? [] : ['priority' => $end->priority];
                $this->jobs[$id] = $priority + ['state' => $isPark ? 'failed' : 'scheduled', 'attempt' => $job['attempt'] + (int) $isPark] + $this->jobs[$id];
            } catch (\Throwable $error) {
                $this->jobs[$id]['state'] = $error instanceof Fatal ? 'failed' : 'scheduled';
                throw $error;
            }
        }
    }

    /** @internal what a server would answer */
    public function send(string $method, string $url, array $headers, ?string $body, int $timeoutMs, ?\Closure $isAborted = null): Response
    {
        $path = (string) parse_url($url, \PHP_URL_PATH);
        parse_str((string) parse_url($url, \PHP_URL_QUERY), $query);
        $fields = $body === null ? [] : (array) Json::decode($body);
        $answer = match (true) {
            "$method $path" === 'POST /v1/jobs' => array_is_list($fields) ? array_map($this->push(...), $fields) : $this->push($fields),
            "$method $path" === 'POST /v1/jobs/cancel' => $this->cancelByKey($fields),
            "$method $path" === 'GET /v1/jobs' => ['jobs' => $this->find($query), 'next_cursor' => null],
            preg_match('#^/v1/jobs/(\d+)(/cancel)?$#', $path, $parts) === 1 => $this->one($method, $parts),
            // A handler that reports progress.
            str_ends_with($path, '/progress') => ['cancel_requested' => false],
            default => throw new \LogicException("Fake does not know $method $path: use Duetime\\Testing\\Server"),
        };
        return new Response(isset($answer['code']) ? (int) $answer['status'] : 200, [], Json::encode($answer));
    }

    /**
     * What follows a job that has succeeded.
     *
     * @param Fields $job
     * @param list<NewJob> $added
     */
    private function pushNext(array $job, array $added): void
    {
        $then = array_merge((array) ($job['then'] ?? []), (array) Json::decode(NewJob::list($added)->text));
        foreach ($then as $n => $next) {
            $previous = array_intersect_key($job, array_flip(['id', 'queue', 'state', 'result']));
            $this->push((array) $next + ['queue' => $job['queue'], 'origin' => "after-{$job['id']}-$n", 'previous' => $previous]);
        }
    }

    /**
     * @param array<mixed> $fields
     * @return array<mixed>
     */
    private function push(array $fields): array
    {
        foreach ($this->jobs as $id => $job) {
            $isLive = \in_array($job['state'], ['ready', 'running', 'scheduled'], true);
            if (($job['origin'] ?? null) === $fields['origin']) {
                return ['outcome' => 'repeated'] + $job;
            }
            if ($isLive && isset($fields['key']) && ($job['key'] ?? null) === $fields['key'] && $job['queue'] === $fields['queue']) {
                if (($fields['on_conflict'] ?? 'keep') === 'reject') {
                    return ['code' => 'key_conflict', 'status' => 409, 'detail' => "the job $id holds the key", 'holder' => $id];
                }
                if (($fields['on_conflict'] ?? 'keep') === 'keep') {
                    return ['outcome' => 'kept'] + $job;
                }
                /** @var Fields $replaced */
                $replaced = $fields + ['outcome' => 'replaced'] + $job;
                return $this->jobs[$id] = $replaced;
            }
        }
        $id = (string) ++$this->last;
        /** @var Fields $job */
        $job = $fields + ['id' => $id, 'kind' => 'default', 'state' => 'ready', 'attempt' => 0, 'tags' => [], 'version' => 1,
            'due_at' => gmdate('Y-m-d\TH:i:s\Z'), 'finished_at' => '', 'outcome' => 'created'];
        return $this->jobs[$id] = $job;
    }

    /**
     * @param array<mixed> $fields
     * @return array<string, int>
     */
    private function cancelByKey(array $fields): array
    {
        foreach ($this->find($fields) as $job) {
            if (\in_array($job['state'], ['ready', 'scheduled'], true)) {
                $this->jobs[$job['id']]['state'] = 'cancelled';
                return ['cancelled' => 1];
            }
        }
        return [];
    }

    /**
     * @param array<mixed> $query
     * @return list<Fields>
     */
    private function find(array $query): array
    {
        return array_values(array_filter($this->jobs, static fn (array $job): bool
            => $job['queue'] === ($query['queue'] ?? $job['queue']) && ($job['key'] ?? null) === ($query['key'] ?? $job['key'] ?? null)));
    }

    /**
     * @param array<string> $parts of the path
     * @return array<string, mixed>
     */
    private function one(string $method, array $parts): array
    {
        $job = $this->jobs[$parts[1]] ?? null;
        if ($job === null) {
            return ['code' => 'not_found', 'status' => 404, 'detail' => "there is no job with the id {$parts[1]}"];
        }
        if ($method === 'GET') {
            return $job;
        }
        $isWaiting = \in_array($job['state'], ['ready', 'scheduled'], true);
        $this->jobs[$parts[1]]['state'] = $isWaiting ? 'cancelled' : $job['state'];
        return ['outcome' => $isWaiting ? 'cancelled' : 'already_finished'];
    }

    /** @param array<string, mixed> $fields */
    private static function job(array $fields): Job
    {
        return new Job($fields, static fn (): string => Json::encode($fields));
    }
}
