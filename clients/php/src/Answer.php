<?php

declare(strict_types=1);

namespace Duetime;

use Duetime\Error\Protocol;

/** A successful answer of the server. */
final class Answer
{
    /**
     * @param array<mixed> $fields what it says; a list if it is one
     * @param string $text the same as JSON
     * @param array<string, string> $headers
     * @param int $tries how often the request was sent
     */
    public function __construct(
        public readonly array $fields,
        public readonly string $text,
        public readonly array $headers,
        public readonly int $tries,
    ) {
    }

    /**
     * A member of the answer.
     *
     * @throws Protocol if it has none of this name
     */
    public function member(string $name): mixed
    {
        return $this->fields[$name] ?? throw $this->odd($name);
    }

    /**
     * The elements of a list.
     *
     * @return list<array<mixed>>
     * @throws Protocol if the member of this name is no list of objects
     */
    public function list(string $name): array
    {
        $list = $this->member($name);
        $elements = [];
        foreach (\is_array($list) ? $list : throw $this->odd($name) as $one) {
            $elements[] = \is_array($one) ? $one : throw $this->odd($name);
        }
        return $elements;
    }

    /** Where the next page begins, or null after the last one. */
    public function next(): ?string
    {
        $cursor = $this->fields['next_cursor'] ?? null;
        return \is_string($cursor) ? $cursor : null;
    }

    /** Why this element of a batch was refused, or null if it was not. */
    public function refusal(int $at): ?DuetimeError
    {
        $element = $this->fields[$at] ?? null;
        return \is_array($element) && isset($element['code']) ? DuetimeError::problem($element) : null;
    }

    /**
     * The jobs in the list of this name.
     *
     * @return list<Job>
     * @throws Protocol
     */
    public function jobs(string $name): array
    {
        // The exact texts of jobs are rarely needed, so the answer is cut into them when the first one is.
        [$jobs, $text] = [[], $this->text];
        /** @var list<string>|null $texts */
        $texts = null;
        foreach ($this->list($name) as $at => $fields) {
            isset($fields['id']) || throw $this->odd('id');
            $exact = static function () use ($text, $name, $at, &$texts): string {
                $texts ??= Json::elements(Json::members($text)[$name]);
                return $texts[$at];
            };
            $jobs[] = $this->read(static fn (): Job => new Job($fields, $exact));
        }
        return $jobs;
    }

    /** @throws Protocol */
    public function job(): Job
    {
        $this->member('id');
        $text = $this->text;
        return $this->read(static fn (array $fields): Job => new Job($fields, static fn (): string => $text));
    }

    /**
     * What is made of the answer.
     *
     * @template T
     * @param \Closure(array<mixed>): T $read
     * @return T
     * @throws Protocol if it is not of the form that is read
     */
    public function read(\Closure $read): mixed
    {
        try {
            return $read($this->fields);
        } catch (DuetimeError $error) {
            throw $error;
        } catch (\Exception | \TypeError | \ValueError) {
            throw $this->odd('fields as documented');
        }
    }

    private function odd(string $name): Protocol
    {
        return new Protocol('protocol', 200, "expected `$name` in the answer, got " . Json::message(substr($this->text, 0, 200)));
    }
}
