<?php

declare(strict_types=1);

namespace Duetime\Laravel\Tests;

use Duetime\Laravel\Tests\App\{AddsToItsBatch, Alone, AloneOrNever, Application, CancelsItsBatch, DeletesItself, FailsAlways, FailsByDefault, FailsByHand,
    FailsInChain, FailsOnce, Limited, Listens, MindsItsBatch, OldStyle, Order, OrderPlaced, Plain, ReleasesItself, Secret, Silent, Throttled, TwoExceptions,
    Unique, UniqueTwice, UniqueUntilProcessing, UntilThen, WithModel};
use Illuminate\Bus\Batch;
use Illuminate\Cache\RateLimiting\Limit;
use Illuminate\Foundation\Application as Laravel;
use Illuminate\Queue\Events\JobFailed;
use Illuminate\Queue\WorkerOptions;
use Illuminate\Support\Carbon;
use Illuminate\Support\Facades\{Bus, Cache, DB, Event, Queue, RateLimiter};
use PHPUnit\Framework\TestCase;
use const Duetime\Laravel\Tests\App\TICK;
use function Duetime\Laravel\Tests\App\note;

/** One application, on Laravel's driver `database` and on this one: what its jobs do must be the same. */
final class EffectsTest extends TestCase
{
    /** Longer than any delay and limit of the application, in ticks. */
    private const END = 20;

    public function testTheDatabaseDriverAndThisOneHaveTheSameEffects(): void
    {
        $database = $this->effects('database');
        for ($try = 1; ($duetime = $this->effects('duetime')) === null; $try++) {
            self::assertLessThan(5, $try, 'the machine is too slow');
        }
        self::assertSame($database, $duetime);
        // And these are what the application is meant to do.
        self::assertSame(['0 attempt 1 on default', '0 done'], $duetime['effects']['plain']);
        self::assertSame(['2 attempt 1 on default', '2 done'], $duetime['effects']['delayed by a number']);
        self::assertSame(['0 attempt 1 on default', '0 done', '1 attempt 2 on default', '1 done', '2 attempt 3 on default', '2 done'],
            $duetime['effects']['releases itself']);
        self::assertSame(['0 attempt 1 on default', '1 attempt 2 on default', '3 attempt 3 on default', '3 failed: DomainException'],
            $duetime['effects']['fails always']);
        self::assertArrayNotHasKey('rolled back', $duetime['effects']);
        self::assertSame(1, \count(preg_grep('/attempt 1/', $duetime['effects']['unique'])));
        self::assertSame(['first', 'second', 'third'], array_keys(array_intersect_key($duetime['effects'], ['first' => 1, 'second' => 1, 'third' => 1])));
        self::assertGreaterThanOrEqual(40, \count($duetime['effects']));
        self::assertGreaterThanOrEqual(7, \count($duetime['failed']));
    }

    /** @return array{effects: array<string, list<string>>, failed: list<string>, batches: list<string>, reported: list<string>, left: int}|null */
    private function effects(string $connection): ?array
    {
        // A try that was too slow has left jobs.
        Site::renew();
        $folder = Site::folder();
        $app = Application::boot($folder, $connection, Site::connection());
        Application::migrate($app);
        Silent::$reported = [];
        $clock = new Clock($connection === 'duetime');
        RateLimiter::for('one-a-minute', static fn () => Limit::perMinute(1));
        Event::listen(OrderPlaced::class, Listens::class);
        Event::listen(JobFailed::class, static fn (JobFailed $event)
            => $app->make('queue.failer')->log($event->connectionName, $event->job->getQueue(), $event->job->getRawBody(), $event->exception));
        self::dispatchAll();
        [$effects, $seen] = [[], 0];
        for ($tick = 0; $tick <= self::END; $tick++) {
            self::work($app, $connection);
            foreach (DB::table('effects')->where('id', '>', $seen)->orderBy('id')->get() as $effect) {
                $effects[$effect->job][] = "$tick {$effect->what}";
                $seen = $effect->id;
            }
            if (Queue::size('default') + Queue::size('other') === 0) {
                break;
            }
            if (!$clock->advance()) {
                return null;
            }
        }
        ksort($effects);
        $failed = DB::table('failed_jobs')->get()->map(static fn (object $row): string
            => $row->queue . ' ' . json_decode($row->payload)->displayName . ' ' . strtok($row->exception, ':'))->sort()->values()->all();
        $batches = DB::table('job_batches')->get()->map(static fn (object $row): string
            => "{$row->name}: {$row->total_jobs} jobs, {$row->pending_jobs} pending, {$row->failed_jobs} failed"
                . ($row->cancelled_at ? ', cancelled' : '') . ($row->finished_at ? ', finished' : ''))->sort()->values()->all();
        $reported = Silent::$reported;
        sort($reported);
        $left = Queue::size('default') + Queue::size('other');
        Carbon::setTestNow();
        return ['effects' => $effects, 'failed' => $failed, 'batches' => $batches, 'reported' => $reported, 'left' => $left];
    }

    /** As `queue:work --stop-when-empty`. The command itself listens for events anew each time that it is called in one process. */
    private static function work(Laravel $app, string $connection): void
    {
        $options = new WorkerOptions('default', 0, 128, 60, 0, 1, false, true);
        $app->make('queue.worker')->setCache($app->make('cache')->store())->daemon($connection, 'default,other', $options);
    }

    private static function dispatchAll(): void
    {
        Plain::dispatch('plain');
        Plain::dispatch('other queue')->onQueue('other');
        Plain::dispatch('delayed by a number')->delay(2 * TICK);
        Plain::dispatch('delayed to a date')->delay(now()->addSeconds(3 * TICK));
        Plain::dispatch('delayed by an interval')->delay(new \DateInterval('PT' . 2 * TICK . 'S'));
        Plain::dispatch('delayed to the past')->delay(now()->subHour());
        Plain::dispatchSync('sync');
        ReleasesItself::dispatch('releases itself');
        FailsOnce::dispatch('fails once');
        FailsAlways::dispatch('fails always');
        FailsByDefault::dispatch('fails by default');
        FailsByHand::dispatch('fails by hand');
        UntilThen::dispatch('until then');
        TwoExceptions::dispatch('two exceptions');
        Unique::dispatch('unique');
        Unique::dispatch('unique');
        Unique::dispatch('another unique');
        UniqueTwice::dispatch('unique twice');
        UniqueUntilProcessing::dispatch('until processing');
        UniqueUntilProcessing::dispatch('until processing');
        Secret::dispatch('secret', 'a word');
        Limited::dispatch('limited 1');
        Limited::dispatch('limited 2');
        Cache::lock('laravel-queue-overlap:' . Alone::class . ':alone', 3 * TICK)->get();
        Cache::lock('laravel-queue-overlap:' . AloneOrNever::class . ':alone', 3 * TICK)->get();
        Alone::dispatch('alone');
        AloneOrNever::dispatch('alone or never');
        Throttled::dispatch('throttled');
        DeletesItself::dispatch('deletes itself');
        Event::dispatch(new OrderPlaced(7));
        dispatch(static fn () => note('closure', 'called'));
        Queue::push(OldStyle::class, ['a' => 1]);
        Queue::later(TICK, OldStyle::class . '@fire', ['b' => 2]);
        Queue::bulk([new Plain('bulk 1'), new Plain('bulk 2')]);
        $orders = [new Order(), new Order()];
        foreach ($orders as $order) {
            $order->save();
            WithModel::dispatch("order {$order->id}", $order);
        }
        $orders[1]->delete();
        DB::transaction(static function (): void {
            Plain::dispatch('after the commit')->afterCommit();
            note('transaction', 'before the commit');
        });
        try {
            DB::transaction(static function (): void {
                Plain::dispatch('rolled back')->afterCommit();
                throw new \DomainException('roll back');
            });
        } catch (\DomainException) {
        }
        Bus::chain([new Plain('first'), (new Plain('second'))->delay(TICK), new Plain('third'), new Unique('same'), new Unique('same'),
            static fn () => note('end of the chain', 'called')])->dispatch();
        Bus::chain([new Plain('before the break'), new FailsInChain('breaks'), new Plain('never')])
            ->catch(static fn (\Throwable $error) => note('caught', $error->getMessage()))->dispatch();
        Bus::batch([new Plain('batch 1'), new Plain('batch 2'), new Unique('in a batch'), new Unique('in a batch'), new AddsToItsBatch('adds')])
            ->then(static fn (Batch $batch) => note('batch', "then {$batch->totalJobs}"))
            ->finally(static fn (Batch $batch) => note('batch', 'finally'))->name('whole')->dispatch();
        Bus::batch([new Plain('good'), new FailsByDefault('bad')])->catch(static fn (Batch $batch, \Throwable $error) => note('bad batch', $error->getMessage()))
            ->allowFailures()->name('with a failure')->onQueue('other')->dispatch();
        Bus::batch([new CancelsItsBatch('cancels'), new MindsItsBatch('minds')])->name('cancelled')->dispatch();
        Bus::batch([[new Plain('chained in a batch 1'), new Plain('chained in a batch 2')]])->name('chains')->dispatch();
    }
}
