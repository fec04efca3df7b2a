<?php
// Laravel's own queue in a Redis, as Debian has it.
//
//   php laravel.php PORT PREFIX produce FIRST COUNT SEED   pushes, delays and cancels at full speed; prints `pushed N`, `cancelling N` and `cancelled N`
//   php laravel.php PORT PREFIX delay FIRST COUNT SECONDS  delays jobs; prints `pushed N`
//   php laravel.php PORT PREFIX work                       runs jobs until its standard input ends; prints `ran N`, or `early N`
require __DIR__ . '/../../beanstalk/clients/laravel.php';
require '/usr/share/php/Illuminate/Redis/autoload.php';

use Illuminate\Container\Container;
use Illuminate\Contracts\Events\Dispatcher;
use Illuminate\Queue\Capsule\Manager;
use Illuminate\Queue\RedisQueue;
use Illuminate\Queue\Worker;
use Illuminate\Queue\WorkerOptions;
use Illuminate\Redis\RedisManager;

final class Works
{
    public function fire($job, $data)
    {
        echo microtime(true) < $data['due'] ? 'early' : 'ran', " {$data['name']}\n";
        $job->delete();
    }
}

// `later` answers no payload, by which a job can be cancelled.
final class Cancellable extends RedisQueue
{
    public function delay(int $seconds, int $name): string
    {
        $data = ['name' => $name, 'due' => time() + $seconds];
        $payload = $this->createPayload('Works', $this->getQueue(null), $data);
        $this->laterRaw($seconds, $payload);
        return $payload;
    }

    public function cancel(string $payload): bool
    {
        return $this->getConnection()->zrem($this->getQueue(null) . ':delayed', $payload) > 0;
    }
}

[, $port, $prefix, $what] = $argv;
$container = new Container();
Container::setInstance($container);
$events = new NoEvents();
$container->instance('events', $events);
$container->instance(Dispatcher::class, $events);
$server = ['host' => '127.0.0.1', 'port' => (int) $port, 'database' => 0];
$redis = new RedisManager($container, 'phpredis', ['default' => $server, 'options' => ['prefix' => $prefix]]);
$container->instance('redis', $redis);

if ($what === 'work') {
    $capsule = new Manager($container);
    $capsule->addConnection(['driver' => 'redis', 'connection' => 'default', 'queue' => 'default', 'retry_after' => 3600, 'block_for' => 1]);
    $worker = new Worker($capsule->getQueueManager(), $events, new Quiet(), fn () => false);
    $options = new WorkerOptions('default', 0, 512, 60, 0, 1);
    do {
        $worker->runNextJob('default', 'default', $options);
        [$read, $write, $except] = [[STDIN], null, null];
    } while (stream_select($read, $write, $except, 0) === 0);
    exit;
}

$queue = new Cancellable($redis, 'default', 'default');
$queue->setContainer($container);
[$first, $count, $last] = array_map('intval', array_slice($argv, 4));
if ($what === 'delay') {
    for ($name = $first; $name < $first + $count; $name++) {
        $queue->delay($last, $name);
        echo "pushed {$name}\n";
    }
    exit;
}
mt_srand($last);
$payloads = [];
for ($name = $first; $name < $first + $count; $name++) {
    $kind = mt_rand(0, 9);
    if ($kind < 3) {
        $queue->push('Works', ['name' => $name, 'due' => 0]);
    } else {
        $payloads[$name] = $queue->delay($kind < 7 ? mt_rand(0, 2) : 1000, $name);
    }
    echo "pushed {$name}\n";
    if ($kind % 2 === 0 && $payloads !== []) {
        $cancelled = array_rand($payloads);
        echo "cancelling {$cancelled}\n";
        if ($queue->cancel($payloads[$cancelled])) {
            echo "cancelled {$cancelled}\n";
        }
        unset($payloads[$cancelled]);
    }
}
