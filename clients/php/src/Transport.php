<?php

declare(strict_types=1);

namespace Duetime;

use Duetime\Error\{Invalid, Unavailable};
use Duetime\Http\{Aborted, CurlHttp, Http, Response};

/**
 * Sends requests to one of the servers, and repeats what may be repeated until its deadline.
 *
 * A request is repeated after a lost connection, a cut answer, and the statuses 408, 429, 502, 503 and 504, at the next server in
 * turn, with exponential backoff and jitter. Callers make their requests safe to repeat: a push has an origin, a reserve a
 * request id.
 */
final class Transport
{
    /** Seconds: a try that has less time says nothing. */
    private const TRY_MIN = 0.02;

    /** @var list<string> */
    public readonly array $servers;
    private readonly string $token;
    private readonly Http $client;
    private int $server = 0;

    /**
     * @param string|list<string>|null $servers by default `DUETIME_SERVER` (several with commas), else http://127.0.0.1:7300.
     *     `unix:/path` is a unix socket
     * @param string|null $token by default `DUETIME_TOKEN`
     * @param float $timeout seconds for one try
     * @param float $deadline seconds for a call with all its repeats
     * @param string|null $ca file with the certificates that a server's may be signed by
     */
    public function __construct(
        string|array|null $servers = null,
        ?string $token = null,
        public readonly float $timeout = 5.0,
        public readonly float $deadline = 30.0,
        public readonly ?string $ca = null,
        ?Http $http = null,
    ) {
        $servers ??= getenv('DUETIME_SERVER') ?: 'http://127.0.0.1:7300';
        $found = [];
        foreach (\is_array($servers) ? $servers : explode(',', $servers) as $server) {
            $server = rtrim(trim($server), '/');
            if (preg_match('#^(https?://[^/\s]|unix:/.)#', $server) !== 1) {
                throw Invalid::field('server', 'an address such as "http://127.0.0.1:7300", or "unix:/path"', "\"$server\"");
            }
            $found[] = $server;
        }
        $this->servers = $found;
        if ($ca !== null && !is_readable($ca)) {
            throw Invalid::field('ca', 'a readable file of certificates', "\"$ca\"");
        }
        $this->token = $token ?? (getenv('DUETIME_TOKEN') ?: '');
        $this->client = $http ?? new CurlHttp($ca);
        if ($timeout <= 0 || $deadline <= 0) {
            throw Invalid::field('timeout', 'more than 0 seconds', (string) min($timeout, $deadline));
        }
    }

    /**
     * What another process needs to make the same calls.
     *
     * @return array{servers: list<string>, token: string, ca: string|null}
     */
    public function config(): array
    {
        return ['servers' => $this->servers, 'token' => $this->token, 'ca' => $this->ca];
    }

    /**
     * @param string|null $body JSON
     * @param list<string> $headers besides those of every request
     * @param float|null $timeout seconds, instead of the client's
     * @param float|null $deadline seconds, instead of the client's
     * @param int $tries at most this many
     * @param (\Closure(): bool)|null $isAborted ends the wait for the answer
     * @param list<string> $done codes that mean, in a repeat, that an earlier try did it: the answer has no fields then
     * @throws DuetimeError
     * @throws Aborted
     */
    public function call(
        string $method,
        string $path,
        ?string $body = null,
        array $headers = [],
        ?float $timeout = null,
        ?float $deadline = null,
        int $tries = \PHP_INT_MAX,
        ?\Closure $isAborted = null,
        array $done = [],
    ): Answer {
        if ($method !== 'GET' && $method !== 'DELETE') {
            $body ??= '{}';
            $headers[] = 'content-type: application/json';
        }
        $headers = [...$this->headers(), ...$headers];
        $timeout ??= $this->timeout;
        [$until, $lost] = [Clock::now() + max($deadline ?? $this->deadline, $timeout), null];
        for ($try = 1;; $try++) {
            try {
                $left = $until - Clock::now();
                $timeoutMs = max(1, (int) (min($timeout, $left) * 1000));
                $response = $this->client->send($method, $this->url($path), $headers, $body, $timeoutMs, $isAborted);
                if ($response->isRepeat) {
                    $try++;
                    $lost ??= new Unavailable('unreachable', 0, 'the answer was lost');
                }
                return self::answer($response, $try);
            } catch (DuetimeError $error) {
                $error->tries = $try;
                if ($try > 1 && \in_array($error->errorCode, $done, true)) {
                    return new Answer([], '', [], $try);
                }
                if ($lost !== null && $error->errorCode === 'version_mismatch') {
                    // Perhaps by the try whose answer was lost.
                    throw $lost;
                }
                $lost = $error->mayHaveHappened() ? $error : $lost;
                $pause = $this->pause($error, $try);
                if (!$error->isTransient() || $try >= $tries || Clock::now() + $pause + self::TRY_MIN >= $until) {
                    throw $error;
                }
                $this->next();
                Clock::sleep($pause);
                if ($isAborted !== null && $isAborted()) {
                    throw new Aborted('stopped while the server is unavailable');
                }
            }
        }
    }

    /**
     * The parts of an answer that does not end.
     *
     * @param list<string> $headers
     * @return \Generator<int, string, mixed, int> returns the status
     */
    public function stream(string $path, array $headers): \Generator
    {
        return CurlHttp::stream($this->url($path), [...$this->headers(), ...$headers], $this->ca);
    }

    /** Asks another server from now on. */
    public function next(): void
    {
        $this->server = ($this->server + 1) % \count($this->servers);
    }

    /**
     * The path of these names, of which each is a segment.
     *
     * @throws Invalid if one is empty: the request would mean something else
     */
    public static function path(string ...$names): string
    {
        $path = '/v1';
        foreach ($names as $name) {
            $path .= '/' . ($name === '' ? throw Invalid::field('name', 'not empty', '""') : rawurlencode($name));
        }
        return $path;
    }

    private function url(string $path): string
    {
        $server = $this->servers[$this->server];
        return str_starts_with($server, 'unix:') ? "$server:$path" : $server . $path;
    }

    /** @return list<string> */
    private function headers(): array
    {
        return $this->token === '' ? ['accept: application/json'] : ['accept: application/json', "authorization: Bearer {$this->token}"];
    }

    /** Seconds before the next try: none until each server was asked, then the `backoff`, or as the server says. */
    private function pause(DuetimeError $error, int $try): float
    {
        if ($error->retryAfter !== null) {
            return $error->retryAfter;
        }
        $round = intdiv($try, \count($this->servers));
        return $try < \count($this->servers) ? 0.0 : self::backoff($round);
    }

    /** Seconds after this failure, the nth in a row: up to 0.1, 0.2, 0.4 … 5. */
    public static function backoff(int $failures): float
    {
        return min(5.0, 0.1 * 2 ** min($failures - 1, 10)) * random_int(500, 1000) / 1000;
    }

    /** @throws DuetimeError */
    private static function answer(Response $response, int $try): Answer
    {
        if ($response->status >= 400) {
            throw DuetimeError::of($response);
        }
        if ($response->status === 204) {
            return new Answer([], '', $response->headers, $try);
        }
        try {
            $fields = $response->status >= 200 && $response->status < 300 ? Json::decode($response->body) : null;
        } catch (\JsonException) {
            $fields = null;
        }
        return \is_array($fields) ? new Answer($fields, $response->body, $response->headers, $try) : throw DuetimeError::foreign($response);
    }
}
