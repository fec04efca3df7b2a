<?php

declare(strict_types=1);

namespace Duetime\Laravel;

use Illuminate\Queue\Events\{JobExceptionOccurred, Looping};
use Illuminate\Queue\QueueManager;
use Illuminate\Support\ServiceProvider;

/** Adds the queue driver `duetime`, and a connection of that name. */
final class DuetimeServiceProvider extends ServiceProvider
{
    public function register(): void
    {
        $this->mergeConfigFrom(__DIR__ . '/../config/duetime.php', 'queue.connections.duetime');
        $this->app->singleton(Duetime::class, static fn ($app): Duetime => new Duetime($app));
        $this->callAfterResolving('queue', static function (QueueManager $queues): void {
            $queues->addConnector('duetime', static fn (): DuetimeConnector => new DuetimeConnector());
        });
    }

    public function boot(): void
    {
        $events = $this->app->make('events');
        $events->listen(Looping::class, function (Looping $event): void {
            $queue = $this->app->make('queue')->connection($event->connectionName);
            if ($queue instanceof DuetimeQueue) {
                $queue->beginRound((string) $event->queue);
            }
        });
        $events->listen(JobExceptionOccurred::class, static function (JobExceptionOccurred $event): void {
            if ($event->job instanceof DuetimeJob) {
                $event->job->failedWith($event->exception);
            }
        });
    }
}
