<?php
declare(strict_types=1);

/** The server refused, and why: `code()` is stable, the message is for people. */
final class DuetimeError extends RuntimeException
{
    public function __construct(public readonly int $status, private readonly string $word, string $message)
    {
        parent::__construct("$word: $message");
    }

    public function word(): string
    {
        return $this->word;
    }
}

/** The calls of Duetime's HTTP API that this example needs. */
final class Duetime
{
    public function __construct(private readonly string $server)
    {
    }

    public static function ofEnvironment(): self
    {
        return new self(rtrim(getenv('DUETIME_SERVER') ?: 'http://127.0.0.1:7300', '/'));
    }

    /** Pushes a job; once this returns it is recorded. */
    public function push(string $queue, array $job): array
    {
        return $this->call('POST', '/v1/queues/' . rawurlencode($queue) . '/jobs', $job);
    }

    /** Cancels all live jobs with a tag; returns counts by outcome. */
    public function cancelTag(string $tag): array
    {
        return $this->call('POST', '/v1/jobs/cancel', ['tag' => $tag]);
    }

    /** Leases due jobs, or waits if none is due. */
    public function reserve(string $queue, int $limit, string $wait): array
    {
        // A repeat after a lost reply gets the same jobs.
        $request = ['limit' => $limit, 'wait' => $wait, 'request_id' => bin2hex(random_bytes(8))];
        return $this->call('POST', '/v1/queues/' . rawurlencode($queue) . '/reserve', $request)['leases'];
    }

    public function complete(string $receipt, mixed $result): void
    {
        $this->call('POST', "/v1/leases/$receipt/complete", ['result' => $result]);
    }

    public function fail(string $receipt, string $message, bool $final): void
    {
        $this->call('POST', "/v1/leases/$receipt/fail", ['message' => $message, 'final' => $final]);
    }

    private function call(string $method, string $path, array $body): array
    {
        $context = stream_context_create(['http' => [
            'method' => $method,
            'header' => "Content-Type: application/json\r\n",
            'content' => json_encode((object) $body, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE),
            'ignore_errors' => true,
            'timeout' => 90,
        ]]);
        $text = @file_get_contents($this->server . $path, false, $context);
        if ($text === false) {
            throw new DuetimeError(0, 'unreachable', "no answer from {$this->server}");
        }
        $status = (int) explode(' ', $http_response_header[0])[1];
        $answer = json_decode($text, true, 64, JSON_THROW_ON_ERROR | JSON_BIGINT_AS_STRING) ?? [];
        if ($status >= 400) {
            throw new DuetimeError($status, $answer['code'] ?? 'unknown', $answer['detail'] ?? $text);
        }
        return $answer;
    }
}
