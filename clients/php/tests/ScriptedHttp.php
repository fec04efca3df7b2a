<?php

declare(strict_types=1);

namespace Duetime\Tests;

use Duetime\Http\{Http, Response};

/** Answers from a script, and records what was sent. */
final class ScriptedHttp implements Http
{
    /** @var list<array{method: string, url: string, headers: list<string>, body: mixed, timeoutMs: int}> */
    public array $sent = [];

    /** @param list<Response|\Throwable> $script */
    public function __construct(private array $script)
    {
    }

    public function send(string $method, string $url, array $headers, ?string $body, int $timeoutMs, ?\Closure $isAborted = null): Response
    {
        $this->sent[] = ['method' => $method, 'url' => $url, 'headers' => $headers, 'body' => $body === null ? null : json_decode($body, true), 'timeoutMs' => $timeoutMs];
        $next = array_shift($this->script) ?? throw new \LogicException("$method $url: the script is over");
        return $next instanceof \Throwable ? throw $next : $next;
    }

    public static function problem(int $status, string $code, array $headers = [], array $more = []): Response
    {
        return new Response($status, $headers, (string) json_encode(['code' => $code, 'status' => $status, 'detail' => 'because'] + $more));
    }

    public static function ok(mixed $fields): Response
    {
        return new Response(200, [], (string) json_encode($fields));
    }

    public static function pushed(string $outcome = 'created'): Response
    {
        return self::ok(['id' => '1', 'queue' => 'q', 'state' => 'ready', 'due_at' => '2027-01-31T08:00:00Z', 'outcome' => $outcome]);
    }
}
