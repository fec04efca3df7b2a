<?php

declare(strict_types=1);

namespace Duetime\Laravel\Tests;

use Duetime\{Client, Job};
use Duetime\Laravel\DuetimeQueue;
use Duetime\Laravel\Tests\App\{Application, Silent};
use Illuminate\Contracts\Console\Kernel;
use Illuminate\Foundation\Application as Laravel;
use Illuminate\Support\Facades\{DB, Queue};
use PHPUnit\Framework\TestCase;
use Symfony\Component\Console\Output\BufferedOutput;

/** An application on this driver, with a queue for each test. */
abstract class Driver extends TestCase
{
    protected string $folder;
    protected string $queue;
    protected Laravel $app;
    protected Client $client;

    protected function setUp(): void
    {
        $this->folder = Site::folder();
        $this->queue = 'q' . bin2hex(random_bytes(6));
        $this->app = Application::boot($this->folder, 'duetime', Site::connection(queue: $this->queue));
        Application::migrate($this->app);
        Silent::$reported = [];
        $this->client = Site::server()->client();
    }

    protected function queue(): DuetimeQueue
    {
        $queue = Queue::connection();
        self::assertInstanceOf(DuetimeQueue::class, $queue);
        return $queue;
    }

    protected function artisan(string ...$arguments): string
    {
        $output = new BufferedOutput();
        $this->app->make(Kernel::class)->call(implode(' ', $arguments), [], $output);
        return $output->fetch();
    }

    /** Artisan in a process of its own. @return array{resource, array<int, resource>} */
    protected function process(string $connection, string ...$arguments): array
    {
        $environment = ['PATH' => getenv('PATH'), 'DUETIME_SERVER' => Site::server()->address, 'DUETIME_QUEUE' => $this->queue, 'LEASE' => '1'];
        $process = proc_open([PHP_BINARY, __DIR__ . '/app/artisan.php', $this->folder, $connection, ...$arguments],
            [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, null, $environment);
        self::assertIsResource($process);
        return [$process, $pipes];
    }

    /** @return list<string> */
    protected static function effects(): array
    {
        return DB::table('effects')->orderBy('id')->pluck('what')->all();
    }

    protected function only(): Job
    {
        $jobs = iterator_to_array($this->client->jobs(queue: $this->queue), false);
        self::assertCount(1, $jobs);
        return $jobs[0];
    }
}
