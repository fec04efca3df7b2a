<?php

declare(strict_types=1);

// A worker that is killed, told to stop, or breaks: see WorkerTest::testProcesses.

use Duetime\{Client, RunningJob, Worker};

require __DIR__ . '/bootstrap.php';

$case = '';
$worker = new Worker(new Client(), $argv[1], maxJobs: 1, stopDeadline: 0.3, lease: '30s',
    timeLimit: (new Client())->jobs(queue: $argv[1])->current()->payload === 'limit' ? 0.3 : null);
$worker->handle('*', static function (RunningJob $job) use ($worker): string {
    echo "running\n";
    switch ($job->payload) {
        case 'exit':
            exit(3);
        case 'memory':
            ini_set('memory_limit', '16M');
            return str_repeat('x', 64 << 20);
        case 'limit':
            sleep(60);
            break;
        case 'returns':
            // As if it was the worker: it must not report, nor take jobs.
            if (($child = pcntl_fork()) === 0) {
                fclose(STDOUT);
                return 'not done';
            }
            pcntl_waitpid($child, $status);
            return 'done';
        case 'forks':
            // One child ends before the handler; another has all that the process has open, until the process has ended.
            $parent = getmypid();
            pcntl_fork() === 0 ? exit(0) : pcntl_wait($status);
            if (pcntl_fork() === 0) {
                fclose(STDOUT);
                fclose(STDERR);
                while (posix_getppid() === $parent) {
                    usleep(1_000);
                }
                posix_kill(getmypid(), SIGKILL);
            }
            return 'done';
    }
    while ($worker->health()['state'] !== 'stopping') {
        usleep(1_000);
    }
    if ($job->payload === 'twice') {
        echo "stopping\n";
    }
    if ($job->payload !== 'term') {
        // Longer than the stop deadline.
        for ($until = hrtime(true) + 60e9; hrtime(true) < $until;) {
        }
    }
    return 'done';
});
$worker->run();
