<?php

declare(strict_types=1);

namespace Duetime\Laravel\Tests\App;

use Illuminate\Bus\{Batchable, Queueable};
use Illuminate\Contracts\Queue\{Job, ShouldBeEncrypted, ShouldBeUnique, ShouldBeUniqueUntilProcessing, ShouldQueue};
use Illuminate\Database\Eloquent\Model;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\{InteractsWithQueue, SerializesModels};
use Illuminate\Queue\Middleware\{RateLimited, ThrottlesExceptions, WithoutOverlapping};
use Illuminate\Support\Facades\DB;

// The jobs of the application: each notes what it does in the table `effects`.

/** Seconds: delays are multiples of it, so that a slow machine does in time what is due at once. */
const TICK = 10;

function note(string $job, string $what): void
{
    DB::table('effects')->insert(['job' => $job, 'what' => $what]);
}

abstract class Noted implements ShouldQueue
{
    use Batchable, Dispatchable, InteractsWithQueue, Queueable, SerializesModels;

    public function __construct(public string $name = '')
    {
    }

    public function handle(): void
    {
        $this->note('attempt ' . $this->attempts() . ' on ' . $this->job?->getQueue());
        $this->act();
        $this->note('done');
    }

    public function failed(?\Throwable $error): void
    {
        $this->note('failed: ' . ($error === null ? '' : $error::class));
    }

    protected function act(): void
    {
    }

    protected function note(string $what): void
    {
        note($this->name ?: class_basename($this), $what);
    }
}

final class Plain extends Noted
{
}

final class ReleasesItself extends Noted
{
    public $tries = 5;

    protected function act(): void
    {
        if ($this->attempts() < 3) {
            $this->release(TICK);
        }
    }
}

final class FailsOnce extends Noted
{
    public $tries = 2;
    public $backoff = TICK;

    protected function act(): void
    {
        $this->attempts() > 1 || throw new \DomainException('once');
    }
}

final class FailsAlways extends Noted
{
    public $tries = 3;

    /** @return list<int> */
    public function backoff(): array
    {
        return [TICK, 2 * TICK];
    }

    protected function act(): void
    {
        throw new \DomainException('always');
    }
}

final class FailsByDefault extends Noted
{
    protected function act(): void
    {
        throw new \DomainException('the tries of the worker');
    }
}

final class FailsByHand extends Noted
{
    public $tries = 3;

    protected function act(): void
    {
        $this->fail(new \LogicException('by hand'));
    }
}

final class UntilThen extends Noted
{
    public $backoff = TICK;

    public function retryUntil(): \DateTimeInterface
    {
        return now()->addSeconds(2 * TICK);
    }

    protected function act(): void
    {
        throw new \DomainException('until then');
    }
}

final class TwoExceptions extends Noted
{
    public $tries = 9;
    public $maxExceptions = 2;

    protected function act(): void
    {
        if ($this->attempts() === 1) {
            $this->release();
            return;
        }
        throw new \DomainException('an exception');
    }
}

final class Unique extends Noted implements ShouldBeUnique
{
    public function uniqueId(): string
    {
        return $this->name;
    }
}

final class UniqueTwice extends Noted implements ShouldBeUnique
{
    public $tries = 3;

    protected function act(): void
    {
        // The lock is held while it runs: this is no second job.
        self::dispatch($this->name);
        $this->attempts() > 1 || $this->release(TICK);
    }
}

final class UniqueUntilProcessing extends Noted implements ShouldBeUniqueUntilProcessing
{
    protected function act(): void
    {
        if (DB::table('effects')->where('job', $this->name)->count() < 4) {
            // It is released already: this is a second job.
            self::dispatch($this->name);
        }
    }
}

final class Secret extends Noted implements ShouldBeEncrypted
{
    public function __construct(public string $name = '', public string $secret = '')
    {
    }

    protected function act(): void
    {
        $this->note("knows {$this->secret}");
    }
}

final class Limited extends Noted
{
    public $tries = 9;

    /** @return list<object> */
    public function middleware(): array
    {
        return [new RateLimited('one-a-minute')];
    }
}

final class Alone extends Noted
{
    public $tries = 9;

    /** @return list<object> */
    public function middleware(): array
    {
        return [(new WithoutOverlapping('alone'))->releaseAfter(2 * TICK)];
    }
}

final class AloneOrNever extends Noted
{
    /** @return list<object> */
    public function middleware(): array
    {
        return [(new WithoutOverlapping('alone'))->dontRelease()];
    }
}

final class Throttled extends Noted
{
    public $tries = 3;

    /** @return list<object> */
    public function middleware(): array
    {
        return [(new ThrottlesExceptions(1, 1))->backoff(0)];
    }

    protected function act(): void
    {
        throw new \DomainException('throttled');
    }
}

final class DeletesItself extends Noted
{
    protected function act(): void
    {
        $this->delete();
    }
}

final class FailsInChain extends Noted
{
    public $tries = 2;

    protected function act(): void
    {
        throw new \DomainException('in a chain');
    }
}

final class AddsToItsBatch extends Noted
{
    protected function act(): void
    {
        $this->batch()?->add([new Plain('added to a batch')]);
    }
}

final class CancelsItsBatch extends Noted
{
    protected function act(): void
    {
        $this->batch()?->cancel();
    }
}

final class MindsItsBatch extends Noted
{
    protected function act(): void
    {
        $this->note($this->batch()?->cancelled() ? 'its batch is cancelled' : 'its batch goes on');
    }
}

final class Order extends Model
{
}

final class WithModel extends Noted
{
    public bool $deleteWhenMissingModels = true;

    public function __construct(public string $name, public Order $order)
    {
    }

    protected function act(): void
    {
        $this->note("order {$this->order->id}");
    }
}

final class Listens implements ShouldQueue
{
    public $queue = 'other';

    public function handle(OrderPlaced $event): void
    {
        note('listener', "order {$event->order}");
    }
}

final class OrderPlaced
{
    public function __construct(public int $order)
    {
    }
}

final class OldStyle
{
    /** @param array<string, mixed> $data */
    public function fire(Job $job, array $data): void
    {
        note('old style', 'attempt ' . $job->attempts() . ' with ' . json_encode($data));
        $job->attempts() > 1 ? $job->delete() : $job->release(TICK);
    }
}

final class TooLong extends Noted
{
    public $timeout = 1;
    public $tries = 1;

    protected function act(): void
    {
        for ($until = hrtime(true) + 30e9; hrtime(true) < $until;) {
        }
    }
}

final class Blocks extends Noted
{
    protected function act(): void
    {
        sleep(2);
    }
}

final class WaitsForCancel extends Noted implements \Duetime\Laravel\Keyed
{
    public function key(): string
    {
        return 'waits';
    }

    protected function act(): void
    {
        for ($until = hrtime(true) + 30e9; hrtime(true) < $until; usleep(10_000)) {
            if ($this->job instanceof \Duetime\Laravel\DuetimeJob && $this->job->cancelled()) {
                $this->note('cancelled');
                return;
            }
        }
    }
}

final class Kills extends Noted implements \Duetime\Laravel\Keyed
{
    public function key(): string
    {
        return 'kills';
    }

    protected function act(): void
    {
        posix_kill((int) getmypid(), SIGKILL);
    }
}
