<?php
// Laravel's own queue worker, as Debian has it, with the server on the port that is given: push, delay, release with a backoff, and
// jobs that fail for good after their tries. Prints `restart` once, and waits for a line until the server is there again.
require __DIR__ . '/laravel.php';
require '/usr/share/php/Pheanstalk/autoload.php';

use Illuminate\Container\Container;
use Illuminate\Contracts\Events\Dispatcher;
use Illuminate\Queue\Capsule\Manager;
use Illuminate\Queue\Worker;
use Illuminate\Queue\WorkerOptions;

final class Works
{
    public static array $ran = [];

    public static array $failed = [];

    // The delay with which a job was released last, by attempt.
    public static array $backoffs = [];

    public function fire($job, $data)
    {
        self::$ran[] = [$data['name'], $job->attempts()];
        if ($data['name'] === 'fails') {
            self::$backoffs[$job->attempts()] = (int) $job->getPheanstalk()->statsJob($job->getPheanstalkJob())->delay;
            throw new RuntimeException('it always fails');
        }
        if ($data['name'] === 'again' && $job->attempts() < 3) {
            $job->release(0);
            return;
        }
        $job->delete();
    }

    public function failed($data, $error)
    {
        self::$failed[] = [$data['name'], $error->getMessage()];
    }
}

function expect(bool $is_so, string $what): void
{
    if (!$is_so) {
        fwrite(STDERR, "not so: $what: " . json_encode(Works::$ran) . "\n");
        exit(1);
    }
}

$container = new Container();
Container::setInstance($container);
$events = new NoEvents();
$container->instance('events', $events);
$container->instance(Dispatcher::class, $events);
$capsule = new Manager($container);
$capsule->addConnection(['driver' => 'beanstalkd', 'host' => '127.0.0.1', 'port' => (int) $argv[1], 'queue' => 'default', 'retry_after' => 30, 'block_for' => 2]);
$queue = $capsule->getConnection();
$worker = new Worker($capsule->getQueueManager(), $events, new Quiet(), fn () => false);
// No memory limit to speak of, 3 tries, and a backoff of one second, then two.
$options = new WorkerOptions('default', '1,2', 512, 60, 0, 3);

$pushed = [];
foreach (['plain', 'again', 'fails'] as $name) {
    $pushed[$name] = $queue->push('Works', ['name' => $name]);
}
$queue->later(1, 'Works', ['name' => 'late']);
expect($queue->size() === 3, 'three are ready, one is delayed');
$of = fn ($name) => array_column(array_filter(Works::$ran, fn ($run) => $run[0] === $name), 1);
while ($of('fails') === []) {
    $worker->runNextJob('default', 'default', $options);
}
$backs_off = function () use ($queue, $pushed) {
    $stats = $queue->getPheanstalk()->statsJob($pushed['fails']);
    return [(int) $stats->reserves, (int) $stats->releases, (int) $stats->delay] === [1, 1, 1];
};
expect($backs_off(), 'it was released with a backoff of one second');

echo "restart\n";
fgets(STDIN);
expect($backs_off(), 'the restart changed nothing');
for ($round = 0; $round < 20 && count(Works::$ran) < 8; $round++) {
    $worker->runNextJob('default', 'default', $options);
}
expect($of('plain') === [1], 'a job runs once');
expect($of('again') === [1, 2, 3], 'a released job counts its attempts');
expect($of('fails') === [1, 2, 3], 'a failing job is tried three times');
expect(Works::$backoffs === [1 => 0, 2 => 1, 3 => 2], 'each try backs off longer');
expect(Works::$failed === [['fails', 'it always fails']], 'the job is told that it has failed');
expect($of('late') === [1], 'a delayed job runs');
expect(count(array_keys($events->seen, 'JobFailed')) === 1, 'one has failed');
$left = $queue->getPheanstalk()->statsTube('default');
expect([$queue->size(), (int) $left->current_jobs_delayed, (int) $left->current_jobs_buried] === [0, 0, 0], 'nothing is left');
echo "all is well\n";
