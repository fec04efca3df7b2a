<?php

declare(strict_types=1);

namespace Duetime;

use Duetime\Error\Invalid;

/** A job to push. What is null is left to the queue and the server: `docs/reference/http.md` has the defaults. */
final class NewJob
{
    /**
     * @param mixed $payload anything that has a form in JSON, `RawJson`, or `Bytes`
     * @param string|null $kind which handler runs it
     * @param string|null $key unique among the live jobs of the queue
     * @param string|array{debounce: string, at_latest?: string}|null $onConflict `keep` (default), `replace` or `reject`, if the key is held; or
     *     `['debounce' => '10s', 'at_latest' => '2m']`: pushes with one key become one job, which is due so long after the last of them
     * @param string|null $keyUntil `finished` (default) or `started`
     * @param string|int|float|\DateInterval|null $delay until it is due: text such as `"30m"`, or seconds
     * @param \DateTimeInterface|string|null $dueAt when it is due, instead of a delay
     * @param list<string> $tags at most 16
     * @param int|null $priority 0 is the most urgent, 1024 the default
     * @param string|array<string, mixed>|null $retry the retry rule: `"none"`, `["steps" => ["15s", "1m"]]` …
     * @param float|null $jitter each wait is longer by up to this part of it; 0.1 by default, 0 for exact waits
     * @param int|null $maxAttempts 0 for no limit
     * @param string|int|float|\DateInterval|null $maxAge since its first due time
     * @param string|array<string, string>|null $whenExhausted `keep`, `drop`, `restart`, or `["move" => queue]`
     * @param string|int|float|\DateInterval|null $lease how long a worker has it before it extends, 1 s to 12 h
     * @param string|int|float|\DateInterval|null $expires how long after it is due it may still start
     * @param string|null $origin identifies this push: a second one with the same makes no second job. Random by default
     * @param array<string, mixed>|null $target where it is delivered
     * @param string|null $trace a W3C `traceparent`; by default that of OpenTelemetry, if there is one
     * @param array<string, string> $meta what workers, webhooks and the dashboard get, such as a tenant; at most 16 entries and 2 KiB
     * @param list<self> $then jobs that are pushed when it succeeds, in the same step; at most 16. They get its result: `$job->previous`
     * @param list<self> $otherwise the same when it has failed for good, was cancelled, or has expired
     */
    public function __construct(
        public readonly string $queue,
        public readonly mixed $payload = null,
        public readonly ?string $kind = null,
        public readonly ?string $key = null,
        public readonly string|array|null $onConflict = null,
        public readonly ?string $keyUntil = null,
        public readonly string|int|float|\DateInterval|null $delay = null,
        public readonly \DateTimeInterface|string|null $dueAt = null,
        public readonly array $tags = [],
        public readonly ?int $priority = null,
        public readonly string|array|null $retry = null,
        public readonly ?float $jitter = null,
        public readonly ?int $maxAttempts = null,
        public readonly string|int|float|\DateInterval|null $maxAge = null,
        public readonly ?int $maxCrashes = null,
        public readonly string|array|null $whenExhausted = null,
        public readonly string|int|float|\DateInterval|null $lease = null,
        public readonly string|int|float|\DateInterval|null $expires = null,
        public readonly ?string $origin = null,
        public readonly ?array $target = null,
        public readonly ?string $trace = null,
        public readonly array $meta = [],
        public readonly array $then = [],
        public readonly array $otherwise = [],
    ) {
    }

    /**
     * Its JSON for the server.
     *
     * @throws Invalid if the payload or an option has no form in JSON, or a duration is none
     */
    public function json(): string
    {
        return $this->jsonWith($this->origin ?? bin2hex(random_bytes(16)), $this->trace ?? Trace::current());
    }

    private function jsonWith(?string $origin, ?string $trace): string
    {
        $list = static fn (array $jobs): ?RawJson => $jobs === [] ? null : self::list($jobs);
        $span = static fn (string|int|float|\DateInterval|null $span, string $field): ?string
            => $span === null ? null : Duration::text($span, $field);
        $fields = [
            'queue' => $this->queue,
            'kind' => $this->kind,
            'key' => $this->key,
            'on_conflict' => $this->onConflict,
            'key_until' => $this->keyUntil,
            'delay' => $span($this->delay, 'delay'),
            'due_at' => $this->dueAt === null ? null : Duration::instant($this->dueAt),
            'tags' => $this->tags === [] ? null : $this->tags,
            'priority' => $this->priority,
            'retry' => $this->retry,
            'jitter' => $this->jitter,
            'max_attempts' => $this->maxAttempts,
            'max_age' => $span($this->maxAge, 'max_age'),
            'max_crashes' => $this->maxCrashes,
            'when_exhausted' => $this->whenExhausted,
            'lease' => $span($this->lease, 'lease'),
            'expires' => $span($this->expires, 'expires'),
            'origin' => $origin,
            'target' => $this->target,
            'trace' => $trace,
            'meta' => $this->meta === [] ? null : (object) $this->meta,
            'then' => $list($this->then),
            'otherwise' => $list($this->otherwise),
        ];
        $fields = array_filter($fields, static fn (mixed $value): bool => $value !== null);
        $fields += $this->payload instanceof Bytes ? ['payload_base64' => base64_encode($this->payload->bytes)] : ['payload' => $this->payload];
        return Json::object($fields);
    }

    /**
     * @internal
     * @param array<self> $jobs jobs that follow another one
     * @throws Error\Invalid
     */
    public static function list(array $jobs): RawJson
    {
        return new RawJson('[' . implode(',', array_map(static fn (self $job): string => $job->jsonWith($job->origin, $job->trace), $jobs)) . ']');
    }
}
