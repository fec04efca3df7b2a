<?php

declare(strict_types=1);

namespace Duetime\Laravel;

use Illuminate\Console\Events\CommandStarting;
use Illuminate\Contracts\Container\Container;
use Illuminate\Contracts\Events\Dispatcher;
use Illuminate\Contracts\Queue\Factory;
use Illuminate\Queue\Events\{JobExceptionOccurred, Looping};
use Illuminate\Queue\QueueManager;
use Illuminate\Support\ServiceProvider;

/** Adds the queue driver `duetime`, and a connection of that name. */
final class DuetimeServiceProvider extends ServiceProvider
{
    /** `--tries` of the worker in this process, which Laravel tells no driver. Its default is 1. */
    private int $tries = 1;

    public function register(): void
    {
        $this->mergeConfigFrom(__DIR__ . '/../config/duetime.php', 'queue.connections.duetime');
        $this->app->singleton(Duetime::class, static fn (Container $app): Duetime => new Duetime($app));
        $this->callAfterResolving('queue', static function (QueueManager $queues): void {
            $queues->addConnector('duetime', static fn (): DuetimeConnector => new DuetimeConnector());
        });
    }

    public function boot(): void
    {
        /** @var Dispatcher $events */
        $events = $this->app->make('events');
        $events->listen(CommandStarting::class, function (CommandStarting $event): void {
            $this->tries = (int) $event->input->getParameterOption('--tries', 1);
        });
        $events->listen(Looping::class, function (Looping $event): void {
            /** @var Factory $queues */
            $queues = $this->app->make('queue');
            $queue = $queues->connection($event->connectionName);
            if ($queue instanceof DuetimeQueue) {
                $queue->beginRound($event->queue, $this->tries);
            }
        });
        $events->listen(JobExceptionOccurred::class, static function (JobExceptionOccurred $event): void {
            if ($event->job instanceof DuetimeJob) {
                $event->job->failedWith($event->exception);
            }
        });
    }
}
