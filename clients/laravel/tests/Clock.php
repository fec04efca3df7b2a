<?php

declare(strict_types=1);

namespace Duetime\Laravel\Tests;

use Illuminate\Support\Carbon;

use const Duetime\Laravel\Tests\App\TICK;

/**
 * The time of the application and of its queue. It stands still until it is advanced.
 *
 * The server goes by its own clock. So what is scheduled there is told to run when the time of the application has come: as long after the
 * round in which it was scheduled as the server was told to wait, in ticks. That needs rounds that are shorter than any delay.
 */
final class Clock
{
    /** Seconds; the shortest delay is a tick. */
    private const ROUND_MAX = TICK - 1;

    private Carbon $now;
    /** @var list<array{float, int}> when a round began, on both clocks */
    private array $rounds = [];

    public function __construct(private readonly bool $isDuetime)
    {
        $this->set(Carbon::createFromTimestampMs((int) (microtime(true) * 1000)));
    }

    /** By a tick. @return bool false if the round took too long to say anything */
    public function advance(): bool
    {
        $took = microtime(true) - end($this->rounds)[0];
        $now = $this->now->copy()->addSeconds(TICK);
        $client = Site::server()->client();
        foreach ($this->isDuetime ? [...$client->jobs('default', 'scheduled'), ...$client->jobs('other', 'scheduled')] : [] as $job) {
            $scheduledAt = (float) (new \DateTimeImmutable($job->fields['updated_at']))->format('U.u');
            $round = array_filter($this->rounds, static fn (array $round): bool => $round[0] <= $scheduledAt + 0.002); // The server counts whole milliseconds.
            // A date was given when the round had lasted for some time.
            $delay = TICK * (int) ceil(((float) $job->dueAt->format('U.u') - $scheduledAt - 0.05) / TICK);
            if (end($round)[1] + $delay <= $now->getTimestamp()) {
                $client->run($job->id);
            }
        }
        $this->set($now);
        return !$this->isDuetime || $took < self::ROUND_MAX;
    }

    private function set(Carbon $now): void
    {
        $this->now = $now;
        Carbon::setTestNow($now);
        $this->rounds[] = [microtime(true), $now->getTimestamp()];
    }
}
