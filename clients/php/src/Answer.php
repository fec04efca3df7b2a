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
        // The exact texts of jobs are rarely needed, so the answer is cut into them when the first one is.
        [$jobs, $text, $texts] = [[], $this->text, null];
        foreach (\is_array($this->fields[$name] ?? null) ? array_values($this->fields[$name]) : [] as $at => $fields) {
            $jobs[] = new Job($fields, static function () use ($text, $name, $at, &$texts): string {
                $texts ??= Json::elements(Json::members($text)[$name]);
                return $texts[$at];
            });
        }
        return $jobs;
    }

    public function job(): Job
    {
        $text = $this->text;
        return new Job($this->fields, static fn (): string => $text);
    }
}
