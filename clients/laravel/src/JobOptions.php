<?php

declare(strict_types=1);

namespace Duetime\Laravel;

use Duetime\{Bytes, NewJob, RawJson};
use Illuminate\Contracts\Queue\ShouldBeUnique;

/** What Duetime is told of a Laravel job: reads its class. */
final class JobOptions
{
    /** Kinds and keys have limits in bytes. */
    private const KIND_MAX = 128;
    private const KEY_MAX = 255;
    /** Laravel's worker decides after how many attempts and crashes a job has failed, so the server has no limit of its own. */
    private const CRASHES = 1_000_000;

    /**
     * @param mixed $job the job object, or null for a raw payload
     * @param \DateTimeInterface|\DateInterval|int|float|string|null $delay seconds, or when it is due; to the millisecond
     */
    public static function newJob(string $queue, string $payload, mixed $delay, mixed $job, float $lease): NewJob
    {
        $about = json_decode($payload, true);
        $name = \is_array($about) ? (string) ($about['displayName'] ?? '') : '';
        return new NewJob(
            $queue,
            $about === null ? new Bytes($payload) : new RawJson($payload),
            kind: $name === '' ? null : substr($name, -self::KIND_MAX),
            key: self::key($job),
            onConflict: $job instanceof Keyed && method_exists($job, 'onKeyConflict') ? (string) $job->onKeyConflict() : null,
            // A unique job is held by Laravel's own lock while it runs. The key holds it while it waits, for all machines. If it lasted
            // longer, a chain could not dispatch the same unique job next, which Laravel does before it deletes the first.
            keyUntil: $job instanceof Keyed || !$job instanceof ShouldBeUnique ? null : 'started',
            delay: $delay instanceof \DateTimeInterface ? null : self::delay($delay),
            dueAt: $delay instanceof \DateTimeInterface ? $delay : null,
            tags: \is_object($job) && method_exists($job, 'tags') ? array_values(array_map(static fn (mixed $tag): string => (string) $tag, (array) $job->tags())) : [],
            maxAttempts: 0,
            maxCrashes: self::CRASHES,
            lease: $lease,
        );
    }

    /** The key of a job object, if it has one: see `Keyed`. That of a unique job is the name of Laravel's lock. */
    public static function key(mixed $job): ?string
    {
        if ($job instanceof Keyed) {
            return $job->key();
        }
        // A batch runs each of its jobs, unique or not, and does not end before each has ended.
        if (!$job instanceof ShouldBeUnique || isset(get_object_vars($job)['batchId'])) {
            return null;
        }
        $key = self::lock($job);
        return \strlen($key) > self::KEY_MAX ? 'laravel_unique_job:' . hash('sha256', $key) : $key;
    }

    /** The name of Laravel's lock for a unique job, up to its version 10. */
    public static function lock(object $job): string
    {
        return 'laravel_unique_job:' . $job::class . (string) (method_exists($job, 'uniqueId') ? $job->uniqueId() : ($job->uniqueId ?? ''));
    }

    /** Laravel takes a delay in the past as none. */
    public static function delay(mixed $delay): int|float|\DateInterval|null
    {
        return $delay instanceof \DateInterval || $delay === null ? $delay : max(0, is_numeric($delay) ? $delay + 0 : 0);
    }
}
