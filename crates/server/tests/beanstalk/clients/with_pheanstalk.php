<?php
// A session of Debian's Pheanstalk with the server on the port that is given.
error_reporting(E_ALL & ~E_DEPRECATED);
require '/usr/share/php/Pheanstalk/autoload.php';

function expect(bool $is_so, string $what): void
{
    if (!$is_so) {
        fwrite(STDERR, "not so: $what\n");
        exit(1);
    }
}

$client = Pheanstalk\Pheanstalk::create('127.0.0.1', (int) $argv[1]);
$client->useTube('mail');
$client->watch('mail');
$client->ignore('default');
$id = $client->put('hello', 7, 0, 30)->getId();
$reserve = fn () => $client->reserveWithTimeout(5);
$job = $reserve();
expect((string) $job->getId() === (string) $id && $job->getData() === 'hello', 'the job is the one that was put');
$stats = $client->statsJob($job);
expect((int) $stats['reserves'] === 1 && $stats['state'] === 'reserved', 'it is reserved');
// beanstalkd 1.13 quotes it, and this version of Pheanstalk does not take the quotes away.
expect(trim($stats['tube'], '"') === 'mail', 'its tube is known');
$client->touch($job);
$client->release($job, 5, 0);
$job = $reserve();
expect((int) $client->statsJob($job)['reserves'] === 2, 'attempts are counted');
$client->bury($job, 3);
expect($client->peekBuried()->getData() === 'hello', 'it is buried');
expect((int) $client->kick(5) === 1, 'it is kicked');
$job = $reserve();
$client->delete($job);
$client->put('later', 7, 1, 30);
$job = $reserve();
expect($job->getData() === 'later', 'a delayed job comes');
$client->delete($job);
expect(in_array('mail', $client->listTubes()), 'tubes are listed');
expect((int) $client->stats()['cmd-put'] === 2, 'puts are counted');
expect((int) $client->statsTube('mail')['current-jobs-ready'] === 0, 'nothing is left');
echo "all is well\n";
