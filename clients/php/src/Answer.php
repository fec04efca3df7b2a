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
        foreach (\is_array($list) ? $list : throw $this->odd($name) as $one) {
            \is_array($one) || throw $this->odd($name);
        }
        return array_values($list);
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
        [$jobs, $text, $texts] = [[], $this->text, null];
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
