<?php

declare(strict_types=1);

namespace Duetime\Laravel;

use Duetime\{CancelOutcome, Client};
use Illuminate\Bus\UniqueLock;
use Illuminate\Contracts\Cache\Repository;
use Illuminate\Contracts\Container\Container;
use Illuminate\Contracts\Queue\ShouldBeUnique;

/** What Laravel's queues cannot do: cancel jobs. Behind the facade `Duetime`. */
final class Duetime
{
    public function __construct(private readonly Container $app)
    {
    }

    /**
     * Cancels the live job with this key. If it is running, its worker is asked to stop: see `DuetimeJob::cancelled`.
     *
     * @param string|object $key a key, or a job object that is `Keyed` or unique: its lock is released, too
     * @param string|null $queue by default that of the job object, else that of the connection
     */
    public function cancel(string|object $key, ?string $queue = null, ?string $connection = null): CancelOutcome
    {
        $job = \is_object($key) ? $key : null;
        $name = \is_string($key) ? $key : JobOptions::key($key);
        if ($name === null) {
            throw new \InvalidArgumentException('expected a key, or a job that is ' . Keyed::class . ' or unique, got ' . get_debug_type($key));
        }
        $duetime = $this->queue($connection ?? $job->connection ?? null);
        $outcome = $duetime->client->cancelByKey($duetime->getQueue($queue ?? $job->queue ?? null), $name);
        if ($job instanceof ShouldBeUnique && $outcome === CancelOutcome::Cancelled) {
            $cache = $this->app->make(Repository::class);
            if (method_exists(UniqueLock::class, 'release')) {
                (new UniqueLock($cache))->release($job);
            } else {
                (method_exists($job, 'uniqueVia') ? $job->uniqueVia() : $cache)->lock(JobOptions::lock($job))->forceRelease();
            }
        }
        return $outcome;
    }

    /**
     * Cancels all live jobs with this tag.
     *
     * @return array<string, int> how many were `cancelled`, `cancel_requested` …
     */
    public function cancelByTag(string $tag, ?string $queue = null, ?string $connection = null): array
    {
        return $this->client($connection)->cancelByTag($tag, $queue);
    }

    /** Everything else: the client of a connection, by default of the first with this driver. */
    public function client(?string $connection = null): Client
    {
        return $this->queue($connection)->client;
    }

    private function queue(?string $connection): DuetimeQueue
    {
        $config = $this->app->make('config');
        $isOurs = static fn (?string $name): bool => $config->get("queue.connections.$name.driver") === 'duetime';
        $name = $connection ?? ($isOurs($config->get('queue.default')) ? $config->get('queue.default') : 'duetime');
        $queue = $this->app->make('queue')->connection($name);
        return $queue instanceof DuetimeQueue ? $queue
            : throw new \InvalidArgumentException("expected a connection with the driver duetime, got $name");
    }
}
