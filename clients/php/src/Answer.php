<?php

declare(strict_types=1);

namespace Duetime;

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
     * The jobs in the list of this name.
     *
     * @return list<Job>
     */
    public function jobs(string $name): array
    {
        $jobs = [];
        foreach (\is_array($this->fields[$name] ?? null) ? array_values($this->fields[$name]) : [] as $at => $fields) {
            // The exact text of a job is rarely needed, so it is cut out of the answer only then.
            $text = $this->text;
            $jobs[] = new Job($fields, static fn (): string => Json::elements(Json::members($text)[$name])[$at]);
        }
        return $jobs;
    }

    public function job(): Job
    {
        $text = $this->text;
        return new Job($this->fields, static fn (): string => $text);
    }
}
