<?php

declare(strict_types=1);

namespace Duetime;

/** What queues and schedules have in common. */
abstract class Group
{
    /** @var string its name in paths and answers */
    protected const KIND = '';

    /** @internal */
    final public function __construct(protected readonly Transport $transport)
    {
    }

    /**
     * All of them, by name, read in pages as you go on.
     *
     * @return \Generator<int, array<mixed>>
     */
    final public function list(): \Generator
    {
        $cursor = '';
        do {
            $answer = $this->transport->call('GET', '/v1/' . static::KIND . '?limit=100' . $cursor);
            yield from $answer->list(static::KIND);
            $next = $answer->next();
            $cursor = '&cursor=' . rawurlencode((string) $next);
        } while ($next !== null);
    }

    /**
     * One of them. A queue that nobody has used is empty.
     *
     * @return array<mixed>
     * @throws Error\NotFound if there is no such schedule
     */
    final public function get(string $name): array
    {
        return $this->transport->call('GET', $this->path($name))->fields;
    }

    /**
     * Hands out no jobs of a queue, pushes none of a schedule.
     *
     * @param string|int|float|\DateInterval|null $for without an end by default
     * @param \DateTimeInterface|string|null $until instead of `$for`
     * @return array<mixed>
     */
    final public function pause(string $name, string|int|float|\DateInterval|null $for = null, \DateTimeInterface|string|null $until = null): array
    {
        $body = ($for === null ? [] : ['for' => Duration::text($for, 'for')]) + ($until === null ? [] : ['until' => Duration::instant($until)]);
        return $this->transport->call('POST', $this->path($name, 'pause'), Json::object($body))->fields;
    }

    /**
     * Ends a pause.
     *
     * @return array<mixed>
     */
    final public function resume(string $name): array
    {
        return $this->transport->call('POST', $this->path($name, 'resume'))->fields;
    }

    final protected function path(string ...$names): string
    {
        return Transport::path(static::KIND, ...$names);
    }
}
