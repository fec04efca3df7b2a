<?php

declare(strict_types=1);

// Measures a connection of Laravel: `php laravel.php FOLDER CONNECTION JOBS`. Prints JSON:
//
//   push     dispatches a second, one after another
//   bulk     jobs a second that `Queue::bulk` pushes, 100 at a time
//   process  no-op jobs a second of one `queue:work`
//   cpu      milliseconds of the worker's CPU for each job
//
// A job may be tried TRIES times, once by default.

use Duetime\Laravel\Tests\App\Application;
use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\{InteractsWithQueue, WorkerOptions};
use Illuminate\Support\Facades\{DB, Queue};

require __DIR__ . '/../../clients/laravel/tests/bootstrap.php';

final class NoOp implements ShouldQueue
{
    use Dispatchable, InteractsWithQueue, Queueable;

    public int $tries = 1;

    public function __construct()
    {
        $this->tries = (int) (getenv('TRIES') ?: 1);
    }

    public function handle(): void
    {
    }
}

[, $folder, $connection, $jobs] = $argv;
$app = Application::boot($folder, $connection, ['block_for' => 0]);
Application::migrate($app);
// As SQLite and Laravel have it by default: what is committed is on disk.
DB::statement('PRAGMA synchronous = FULL');
$rate = static function (int $jobs, Closure $what): float {
    $began = hrtime(true);
    $what();
    return round($jobs / (hrtime(true) - $began) * 1e9, 1);
};
$push = $rate(intdiv((int) $jobs, 2), static function () use ($jobs): void {
    for ($n = 0; $n < intdiv((int) $jobs, 2); $n++) {
        // The dispatch of a `PendingDispatch` is in its destructor.
        NoOp::dispatch();
    }
});
$bulk = $rate(intdiv((int) $jobs, 2), static function () use ($jobs): void {
    foreach (array_chunk(array_fill(0, intdiv((int) $jobs, 2), null), 100) as $chunk) {
        Queue::bulk(array_map(static fn (): NoOp => new NoOp(), $chunk));
    }
});
$worker = $app->make('queue.worker')->setCache($app->make('cache')->store());
$cpu = static fn (): float => ($usage = getrusage())['ru_utime.tv_sec'] * 1e3 + $usage['ru_utime.tv_usec'] / 1e3 + $usage['ru_stime.tv_sec'] * 1e3 + $usage['ru_stime.tv_usec'] / 1e3;
$before = $cpu();
$process = $rate((int) $jobs, static fn () => $worker->daemon($connection, 'default', new WorkerOptions('default', 0, 512, 60, 0, 1, false, true)));
$left = Queue::size();
$left === 0 || exit("expected no job to be left, got $left\n");
echo json_encode(['queue' => getenv('LABEL') ?: $connection, 'push' => $push, 'bulk' => $bulk, 'process' => $process, 'cpu' => round(($cpu() - $before) / $jobs, 3)]), "\n";
