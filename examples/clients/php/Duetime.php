<?php
declare(strict_types=1);

/** The server refused. `word` is stable; the text is for people. Word `unreachable`: there was no answer. */
final class Problem extends RuntimeException
{
    public function __construct(public readonly int $status, public readonly string $word, string $detail)
    {
        parent::__construct("$word: $detail");
    }

    /** Whether a retry may succeed. Other requests would be refused again. */
    public function passes(): bool
    {
        return $this->word === 'unreachable' || in_array($this->status, [408, 429, 502, 503, 504], true);
    }
}

/** Thrown by a handler: the job has failed for good and is not retried. */
final class FinalFailure extends RuntimeException
{
}

/**
 * A small client of Duetime's HTTP API: PHP 8.1 or later, without any extension. Copy this file.
 *
 * The environment has the server's address (`DUETIME_SERVER`) and, if it requires one, the token (`DUETIME_TOKEN`).
 */
final class Duetime
{
    private const TRIES = 6;
    private readonly string $server;
    private readonly string $token;

    public function __construct(?string $server = null, ?string $token = null)
    {
        $this->server = rtrim($server ?? (getenv('DUETIME_SERVER') ?: 'http://127.0.0.1:7300'), '/');
        $this->token = $token ?? (getenv('DUETIME_TOKEN') ?: '');
    }

    /** When this returns, the job is recorded. Its origin identifies the push, so a repeat makes no second job. */
    public function push(string $queue, array $job): array
    {
        return $this->call('POST', '/v1/queues/' . rawurlencode($queue) . '/jobs', $job + ['origin' => bin2hex(random_bytes(16))]);
    }

    public function cancel(string $id): string
    {
        return $this->call('POST', "/v1/jobs/$id/cancel")['outcome'];
    }

    /** Leases due jobs, or waits if none is due. A repeat gets the same jobs. */
    public function reserve(string $queue, int $limit = 1, string $lease = '60s', string $wait = '5s'): array
    {
        $request = ['limit' => $limit, 'lease' => $lease, 'wait' => $wait, 'worker' => gethostname() . ':' . getmypid()];
        $request['request_id'] = bin2hex(random_bytes(8));
        return $this->call('POST', '/v1/queues/' . rawurlencode($queue) . '/reserve', $request)['leases'];
    }

    /** `complete` (result), `fail` (message, final, retry_after), `release` (delay) or `extend` (lease). */
    public function settle(string $receipt, string $verb, array $body = []): array
    {
        return $this->call('POST', "/v1/leases/$receipt/$verb", $body);
    }

    /** Acquires (ttl, wait); with a fence it renews. Returns `fence` and `expires_at`. */
    public function lock(string $name, string $owner, array $options = []): array
    {
        return $this->call('PUT', '/v1/locks/' . rawurlencode($name), ['owner' => $owner] + $options);
    }

    public function unlock(string $name, string $owner, int $fence): void
    {
        $query = http_build_query(['owner' => $owner, 'fence' => $fence]);
        $this->call('DELETE', '/v1/locks/' . rawurlencode($name) . "?$query");
    }

    /**
     * Runs jobs one after the other until `$isStopped()`. A handler is given the job and `$keep`, to be called now and then:
     * it extends the lease where a third of that has passed, and answers false when the job is no longer ours.
     */
    public function work(string $queue, callable $handler, callable $isStopped, int $seconds = 60): void
    {
        while (!$isStopped()) {
            try {
                $jobs = $this->reserve($queue, 1, "{$seconds}s");
            } catch (Problem $problem) {
                if (!$problem->passes()) {
                    throw $problem;
                }
                echo $problem->getMessage(), "\n";
                continue;
            }
            foreach ($jobs as $job) {
                $this->run($job, $handler, $seconds);
            }
        }
    }

    private function run(array $job, callable $handler, int $seconds): void
    {
        $kept = hrtime(true);
        $keep = function () use ($job, $seconds, &$kept): bool {
            if (hrtime(true) - $kept < $seconds * 1e9 / 3) {
                return true;
            }
            $kept = hrtime(true);
            try {
                return !$this->settle($job['receipt'], 'extend')['cancel_requested'];
            } catch (Problem $problem) {
                return $problem->word !== 'lease_lost';
            }
        };
        try {
            $job['payload'] = self::payloadOf($job);
            $outcome = ['complete', ['result' => $handler($job, $keep)]];
        } catch (Throwable $error) {
            $outcome = ['fail', ['message' => self::message($error), 'final' => $error instanceof FinalFailure]];
        }
        try {
            $this->settleOrFail($job['receipt'], ...$outcome);
        } catch (Problem $problem) {
            // `lease_lost`: another worker has the job, or the answer to an earlier settle was lost.
            echo "job {$job['id']}: {$problem->getMessage()}\n";
        }
    }

    /** The pushed payload. JSON that some decoders refuse comes in base64, as do bytes that are not JSON. */
    public static function payloadOf(array $job): mixed
    {
        if (array_key_exists('payload', $job)) {
            return $job['payload'];
        }
        try {
            return json_decode(base64_decode($job['payload_base64']), true, 512, JSON_THROW_ON_ERROR);
        } catch (JsonException $error) {
            throw new FinalFailure("the payload cannot be read: {$error->getMessage()}");
        }
    }

    /** The message in a form that the server takes: UTF-8 of at most 64 KiB. */
    private static function message(\Throwable $error): string
    {
        return json_decode(json_encode(substr($error->getMessage(), 0, 16_000), JSON_INVALID_UTF8_SUBSTITUTE));
    }

    /** Settles; a result that the server refuses fails the job, so that it does not run again and again. */
    private function settleOrFail(string $receipt, string $verb, array $body): void
    {
        try {
            $this->settle($receipt, $verb, $body);
        } catch (Problem | JsonException $error) {
            if ($error instanceof Problem && !in_array($error->status, [400, 413], true)) {
                throw $error;
            }
            $this->settle($receipt, 'fail', ['message' => "the outcome was refused: {$error->getMessage()}", 'final' => true]);
        }
    }

    /** Calls the API, and repeats the call for some seconds while the server is unavailable. Every call is safe to repeat. */
    public function call(string $method, string $path, array $body = []): array
    {
        for ($attempt = 1;; $attempt++) {
            try {
                return $this->once($method, $path, $body);
            } catch (Problem $problem) {
                if ($attempt === self::TRIES || !$problem->passes()) {
                    throw $problem;
                }
                usleep((int) (min(100_000 * 2 ** $attempt, 5_000_000) * random_int(50, 100) / 100));
            }
        }
    }

    private function once(string $method, string $path, array $body): array
    {
        $headers = ['Content-Type: application/json'];
        if ($this->token !== '') {
            $headers[] = "Authorization: Bearer {$this->token}";
        }
        $context = stream_context_create(['http' => [
            'method' => $method,
            'header' => $headers,
            'content' => $method === 'DELETE' ? '' : json_encode((object) $body, JSON_THROW_ON_ERROR),
            'ignore_errors' => true,
            'follow_location' => 0,
            // Longer than any wait that this client requests, in seconds.
            'timeout' => 60,
        ]]);
        $text = @file_get_contents($this->server . $path, false, $context);
        if ($text === false || !isset($http_response_header[0])) {
            $why = error_get_last()['message'] ?? 'no answer';
            throw new Problem(0, 'unreachable', "{$this->server}: $why");
        }
        $status = (int) (explode(' ', $http_response_header[0])[1] ?? 0);
        $answer = json_decode($text, true);
        if ($status >= 400) {
            // Without a document it is not from the server: a proxy's page, perhaps.
            throw new Problem($status, $answer['code'] ?? "http_$status", $answer['detail'] ?? substr($text, 0, 200));
        }
        if ($answer === null && $status !== 204) {
            throw new Problem(0, 'unreachable', "{$this->server}: the answer was cut off");
        }
        return $answer ?? [];
    }
}
