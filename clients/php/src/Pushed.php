<?php

declare(strict_types=1);

namespace Duetime;

/** The answer to a push: the job is recorded, unless a full queue dropped it. */
final class Pushed
{
    /** @param string $outcome `created`; `kept` or `replaced` if its key was held; `repeated` for a repeated push;
     *     `dropped` if the queue was full: then there is no job */
    public function __construct(
        public readonly string $id,
        public readonly string $queue,
        public readonly string $state,
        public readonly \DateTimeImmutable $dueAt,
        public readonly string $outcome,
    ) {
    }

    /**
     * @internal
     * @param array<mixed> $fields
     */
    public static function of(array $fields): self
    {
        isset($fields['id'], $fields['queue'], $fields['state'], $fields['due_at'], $fields['outcome']) || throw new \ValueError('a field is missing');
        return new self((string) $fields['id'], (string) $fields['queue'], (string) $fields['state'],
            Duration::when((string) $fields['due_at']), (string) $fields['outcome']);
    }
}
