<?php

declare(strict_types=1);

namespace Duetime\Laravel;

use Duetime\{CancelOutcome, Client};
use Illuminate\Bus\UniqueLock;
use Illuminate\Contracts\Cache\{LockProvider, Repository};
use Illuminate\Contracts\Config\Repository as Config;
use Illuminate\Contracts\Container\Container;
use Illuminate\Contracts\Queue\{Factory, ShouldBeUnique};

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
        $said = static fn (mixed $name): ?string => \is_string($name) ? $name : null;
        $duetime = $this->queue($connection ?? $said($job->connection ?? null));
        $outcome = $duetime->client->cancelByKey($duetime->getQueue($queue ?? $said($job->queue ?? null)), $name);
        if ($job instanceof ShouldBeUnique && $outcome === CancelOutcome::Cancelled) {
            /** @var Repository $cache */
            $cache = $this->app->make(Repository::class);
            if (method_exists(UniqueLock::class, 'release')) {
                (new UniqueLock($cache))->release($job);
            } else {
                /** @var LockProvider $locks */
                $locks = method_exists($job, 'uniqueVia') ? $job->uniqueVia() : $cache;
                $locks->lock(JobOptions::lock($job))->forceRelease();
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
        /** @var Config $config */
        $config = $this->app->make('config');
        /** @var Factory $queues */
        $queues = $this->app->make('queue');
        $default = $config->get('queue.default');
        $isOurs = \is_string($default) && $config->get("queue.connections.$default.driver") === 'duetime';
        $name = $connection ?? ($isOurs ? $default : 'duetime');
        $queue = $queues->connection($name);
        return $queue instanceof DuetimeQueue ? $queue
            : throw new \InvalidArgumentException("expected a connection with the driver duetime, got $name");
    }
}
