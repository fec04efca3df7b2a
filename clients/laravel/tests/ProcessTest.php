<?php

declare(strict_types=1);

namespace Duetime\Laravel\Tests;

use Duetime\CancelOutcome;
use Duetime\Laravel\Facades\Duetime;
use Duetime\Laravel\Tests\App\{Application, Blocks, Kills, Plain, TooLong, WaitsForCancel};
use Illuminate\Support\Facades\{DB, Queue};

/** What workers in processes of their own do. */
final class ProcessTest extends Driver
{
    public function testARunningJobLearnsOfItsCancel(): void
    {
        $this->app = Application::boot($this->folder, 'duetime', Site::connection(queue: $this->queue, lease: 1));
        WaitsForCancel::dispatch('waits');
        [$process, $pipes] = $this->process('duetime', 'queue:work', '--once');
        self::assertStringContainsString('Processing', (string) fgets($pipes[1]));
        self::assertSame(CancelOutcome::Requested, Duetime::cancel('waits'));
        stream_get_contents($pipes[1]);
        proc_close($process);
        self::assertSame(['attempt 1 on ' . $this->queue, 'cancelled', 'done'], self::effects());
    }

    public function testAHandlerThatBlocksKeepsItsLease(): void
    {
        $this->app = Application::boot($this->folder, 'duetime', Site::connection(queue: $this->queue, lease: 1));
        Blocks::dispatch('blocks');
        $this->artisan('queue:work', '--stop-when-empty', '--sleep=0');
        $job = $this->only();
        self::assertSame(['succeeded', 1, 0], [$job->state, $job->attempt, $job->fields['crashes']]);
        self::assertCount(2, self::effects(), 'it ran once');
    }

    public function testAKilledWorkerAndATimeoutHaveTheEffectsOfTheDatabaseDriver(): void
    {
        $failed = [];
        foreach (['database', 'duetime'] as $connection) {
            $this->app = Application::boot($this->folder, $connection, Site::connection(queue: $this->queue));
            TooLong::dispatch('too long')->onQueue($this->queue);
            [$process, $pipes] = $this->process($connection, 'queue:work', "--queue={$this->queue}", '--sleep=0');
            stream_get_contents($pipes[1]);
            proc_close($process);
            $row = DB::table('failed_jobs')->first();
            $failed[$connection] = [$row?->queue, strtok((string) $row?->exception, ':'), self::effects(), Queue::size($this->queue)];
            DB::table('failed_jobs')->delete();
            DB::table('effects')->delete();
        }
        self::assertSame($failed['database'], $failed['duetime']);
        self::assertStringContainsString('MaxAttemptsExceeded', $failed['duetime'][1]);

        // Killed without a word: it runs again after its lease, as a second attempt.
        $this->app = Application::boot($this->folder, 'duetime', Site::connection(queue: $this->queue, lease: 1, block_for: 5));
        $done = Queue::push(new Plain('before it is killed'));
        Kills::dispatch('kills');
        [$process, $pipes] = $this->process('duetime', 'queue:work', "--queue={$this->queue}");
        stream_get_contents($pipes[1]);
        proc_close($process);
        self::assertSame('succeeded', $this->client->get($done)->state, 'its outcome is reported by the child');
        $job = $this->client->find($this->queue, 'kills');
        self::assertSame('running', $job?->state);
        $queue = $this->queue();
        do {
            // The server waits until the lease has ended.
            $queue->beginRound($this->queue);
            $again = $queue->pop($this->queue);
        } while ($again === null);
        self::assertSame([$job->id, 2], [$again->getJobId(), $again->attempts()]);
    }

    public function testAWorkerThatEndsGivesBackWhatItHasFetched(): void
    {
        foreach ([[['--max-jobs=40'], null], [[], SIGTERM], [[], SIGKILL]] as [$options, $signal]) {
            Queue::bulk(array_fill(0, 400, new Plain()));
            [$process, $pipes] = $this->process('duetime', 'queue:work', "--queue={$this->queue}", '--sleep=0', '--tries=3', ...$options);
            for ($lines = 0; $lines < 60; $lines++) {
                self::assertNotFalse(fgets($pipes[1]));
            }
            $signal === null || proc_terminate($process, $signal);
            stream_get_contents($pipes[1]);
            proc_close($process);
            $queue = $this->client->queues->get($this->queue);
            // The child of a killed worker lives a moment longer, and the job that ran waits for its lease.
            while ($signal === SIGKILL && $queue['running'] > 1) {
                $queue = $this->client->queues->get($this->queue);
            }
            $ran = DB::table('effects')->where('what', 'like', 'attempt 1 %')->count();
            [$done, $left] = [$queue['totals']['succeeded'], $queue['running']];
            self::assertLessThanOrEqual($signal === SIGKILL ? 1 : 0, $left, "signal $signal");
            self::assertSame(400, $queue['ready'] + $done + $left, "signal $signal");
            self::assertTrue($done <= $ran && $ran <= $done + $left, "signal $signal: $ran jobs began, $done have ended");
            $this->client->queues->purge($this->queue);
            // What a killed worker ran keeps its queue, and no round follows.
            $left === 0 && $this->client->queues->delete($this->queue, force: true);
            DB::table('effects')->delete();
        }
    }

    public function testAKilledContainerFailsOnlyTheJobThatRan(): void
    {
        Queue::bulk(array_fill(0, 400, new Plain()));
        [$process, $pipes] = $this->process('duetime', 'queue:work', "--queue={$this->queue}", '--sleep=0', '--tries=1');
        for ($lines = 0; $lines < 60; $lines++) {
            self::assertNotFalse(fgets($pipes[1]));
        }
        array_map(static fn (int $one): bool => posix_kill($one, SIGSTOP), $all = self::family($process));
        array_map(static fn (int $one): bool => posix_kill($one, SIGKILL), $all);
        proc_close($process);
        // A second worker waits for the leases of the first, and works off what is left.
        $this->app = Application::boot($this->folder, 'duetime', Site::connection(queue: $this->queue, block_for: 5));
        do {
            $this->artisan('queue:work', "--queue={$this->queue}", '--stop-when-empty', '--sleep=0', '--tries=1');
        } while (Queue::size() > 0);
        $begun = DB::table('effects')->where('what', 'like', 'attempt 1 %')->count();
        self::assertGreaterThanOrEqual(399, $begun, 'but one that was just about to begin');
    }

    public function testAFrozenWorkerLeavesItsJobToTheOneThatHasItNow(): void
    {
        $this->app = Application::boot($this->folder, 'duetime', Site::connection(queue: $this->queue, lease: 1, block_for: 5));
        Blocks::dispatch('blocks');
        [$process, $pipes] = $this->process('duetime', 'queue:work', "--queue={$this->queue}", '--sleep=0', '--stop-when-empty');
        self::assertStringContainsString('Processing', (string) fgets($pipes[1]));
        // It and the child that extends its lease: a container that is paused, a machine that sleeps.
        array_map(static fn (int $one): bool => posix_kill($one, SIGSTOP), $all = self::family($process));
        $queue = $this->queue();
        do {
            $queue->beginRound($this->queue);
            $again = $queue->pop($this->queue);
        } while ($again === null);
        $again->delete();
        $queue->sync();
        $next = Queue::push(new Plain('next'));
        array_map(static fn (int $one): bool => posix_kill($one, SIGCONT), $all);
        stream_get_contents($pipes[1]);
        self::assertSame(0, proc_close($process));
        $job = $this->client->get($again->getJobId());
        self::assertSame(['succeeded', 2, 'succeeded'], [$job->state, $job->attempt, $this->client->get($next)->state]);
    }

    /** @param resource $process @return list<int> it and its children */
    private static function family($process): array
    {
        $pid = proc_get_status($process)['pid'];
        return [$pid, ...array_map('intval', explode(' ', trim((string) file_get_contents("/proc/$pid/task/$pid/children"))))];
    }
}
