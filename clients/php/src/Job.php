<?php

declare(strict_types=1);

namespace Duetime;

/** A job as the server describes it. Fields that it does not have are null. */
class Job
{
    /** Text, by which it is found, changed and cancelled. */
    public readonly string $id;
    /** The queue in which it is. */
    public readonly string $queue;
    /** Which handler runs it: `default` if the push named none. */
    public readonly string $kind;
    /** `scheduled`, `ready`, `running`, `succeeded`, `failed` or `cancelled`. */
    public readonly string $state;
    /** How many attempts have begun. */
    public readonly int $attempt;
    /** Unique among the live jobs of the queue. */
    public readonly ?string $key;
    /** @var list<string> */
    public readonly array $tags;
    /** When it is, or was, due: in UTC, to the millisecond. */
    public readonly \DateTimeImmutable $dueAt;
    /** Decoded JSON (objects are arrays, integers beyond 64 bits are text), or bytes. `payloadText()` is exact. */
    public readonly mixed $payload;
    /** What its handler returned, decoded as the payload is. */
    public readonly mixed $result;
    /** Grows with each change of the job. */
    public readonly int $version;
    /** @var array{percent: int, note?: string, at: string}|null */
    public readonly ?array $progress;
    /** @var list<array{at: string, attempt: int, message: string}> of its last 20 attempts */
    public readonly array $errors;
    /** A W3C `traceparent`. */
    public readonly ?string $trace;
    /** @var array<string, string> what the push said of its tenant, its user … */
    public readonly array $meta;
    /** @var array<string, mixed>|null the job whose end pushed it: `id`, `queue`, `state`, and `result`, `result_base64` or `message` */
    public readonly ?array $previous;

    /**
     * @param array<mixed> $fields all that the server says of it, by the names of the HTTP API
     * @param \Closure(): string $text gives the JSON of these fields
     */
    public function __construct(public readonly array $fields, protected readonly \Closure $text)
    {
        $string = static function (string $name) use ($fields): ?string {
            $value = $fields[$name] ?? null;
            return \is_string($value) ? $value : null;
        };
        $this->id = $string('id') ?? '';
        $this->queue = $string('queue') ?? '';
        $this->kind = $string('kind') ?? 'default';
        $this->state = $string('state') ?? 'running';
        $this->attempt = (int) ($fields['attempt'] ?? 0);
        $this->key = $string('key');
        $this->tags = $fields['tags'] ?? [];
        $this->dueAt = Duration::when($string('due_at') ?? 'now');
        $this->payload = self::value($fields, 'payload');
        $this->result = self::value($fields, 'result');
        $this->version = (int) ($fields['version'] ?? 0);
        $this->progress = $fields['progress'] ?? null;
        $this->errors = $fields['errors'] ?? [];
        $this->trace = $string('trace');
        $this->meta = $fields['meta'] ?? [];
        $this->previous = $fields['previous'] ?? null;
    }

    /** The payload as it was pushed, to the byte: JSON, or any bytes. */
    public function payloadText(): string
    {
        return $this->textOf('payload') ?? 'null';
    }

    /** The result in the same way, or null if there is none. */
    public function resultText(): ?string
    {
        return $this->textOf('result');
    }

    /** The payload in a form in which it can be pushed, or be a result, without any change. */
    public function exact(): RawJson|Bytes
    {
        return isset($this->fields['payload_base64']) ? new Bytes($this->payloadText()) : new RawJson($this->payloadText());
    }

    /** The result in such a form, or null if there is none. */
    public function exactResult(): RawJson|Bytes|null
    {
        $text = $this->resultText();
        return $text === null ? null : (isset($this->fields['result_base64']) ? new Bytes($text) : new RawJson($text));
    }

    /** Whether it has succeeded, failed or was cancelled. */
    public function hasEnded(): bool
    {
        return \in_array($this->state, ['succeeded', 'failed', 'cancelled'], true);
    }

    /**
     * The payload as an object of your class: its members are the arguments of the constructor, by name.
     *
     * @template T of object
     * @param class-string<T> $class
     * @return T
     * @throws Fatal that names the member which is missing, unknown or of another type
     */
    public function as(string $class): object
    {
        $constructor = (new \ReflectionClass($class))->getConstructor();
        $payload = \is_array($this->payload) ? $this->payload : [null];
        if ($payload !== [] && array_is_list($payload)) {
            throw new Fatal("the payload must be a JSON object for $class, got " . get_debug_type($this->payload));
        }
        $arguments = [];
        foreach ($constructor?->getParameters() ?? [] as $parameter) {
            $name = $parameter->getName();
            if (\array_key_exists($name, $payload)) {
                $arguments[$name] = $payload[$name];
                unset($payload[$name]);
            } elseif (!$parameter->isOptional()) {
                throw new Fatal("`$name` is missing in the payload: $class needs it");
            }
        }
        if ($payload !== []) {
            throw new Fatal('`' . (string) array_key_first($payload) . "` in the payload is unknown to $class");
        }
        try {
            /** @psalm-suppress MixedMethodCall the constructor checks the types */
            return new $class(...$arguments);
        } catch (\TypeError $error) {
            $name = preg_match('/Argument #\d+ \((\$\w+)\)/', $error->getMessage(), $found) === 1 ? ltrim($found[1], '$') : '?';
            throw new Fatal("`$name` in the payload has another type than $class expects: {$error->getMessage()}", previous: $error);
        }
    }

    private function textOf(string $name): ?string
    {
        if (isset($this->fields["{$name}_base64"])) {
            return (string) base64_decode((string) $this->fields["{$name}_base64"], true);
        }
        return \array_key_exists($name, $this->fields) ? Json::members(($this->text)())[$name] : null;
    }

    /** @param array<mixed> $fields */
    private static function value(array $fields, string $name): mixed
    {
        if (!isset($fields["{$name}_base64"])) {
            return $fields[$name] ?? null;
        }
        // Either bytes that are not JSON, or JSON that some decoders refuse.
        $bytes = (string) base64_decode((string) $fields["{$name}_base64"], true);
        try {
            return Json::decode($bytes);
        } catch (\JsonException) {
            return $bytes;
        }
    }
}
