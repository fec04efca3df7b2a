<?php

declare(strict_types=1);

// Carries out calls and jobs for the conformance tests in clients/conformance, which describes both modes.

use Duetime\{Bytes, Client, DuetimeError, Fatal, Job, Lock, NewJob, Pushed, Park, RawJson, Release, RetryAfter, RunningJob, Worker};

require __DIR__ . '/../src/autoload.php';

set_error_handler(static function (int $severity, string $message, string $file, int $line): bool {
    return (error_reporting() & $severity) === 0 ? true : throw new ErrorException($message, 0, $severity, $file, $line);
}, E_ALL & ~E_DEPRECATED);

/** @return array<string, string> */
function options(array $arguments): array
{
    $options = [];
    for ($at = 0; $at < count($arguments); $at += 2) {
        $options[substr($arguments[$at], 2)] = $arguments[$at + 1];
    }
    return $options;
}

/** Exact values are written as they came. */
function text(mixed $value): string
{
    if ($value instanceof RawJson) {
        return $value->text;
    }
    if ($value instanceof Bytes) {
        return json_encode(['base64' => base64_encode($value->bytes)], JSON_THROW_ON_ERROR);
    }
    if (is_array($value)) {
        $parts = array_is_list($value) ? array_map(text(...), $value)
            : array_map(static fn (string $name, mixed $part): string => json_encode($name) . ':' . text($part), array_keys($value), $value);
        return array_is_list($value) && $value !== [] ? '[' . implode(',', $parts) . ']' : ($value === [] ? '[]' : '{' . implode(',', $parts) . '}');
    }
    return json_encode($value, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION);
}

/** @param array<string, mixed> $args */
function newJob(array $args, string $line): NewJob
{
    // The exact payload, as the line has it.
    $payload = new RawJson($args['payload_text'] ?? Duetime\Json::members($line)['payload'] ?? 'null');
    $names = ['on_conflict' => 'onConflict', 'key_until' => 'keyUntil', 'due_at' => 'dueAt', 'max_attempts' => 'maxAttempts', 'max_age' => 'maxAge',
        'max_crashes' => 'maxCrashes', 'when_exhausted' => 'whenExhausted'];
    $options = [];
    foreach ($args['options'] ?? [] as $name => $value) {
        $options[$names[$name] ?? $name] = $value;
    }
    return new NewJob($args['queue'], $payload, ...$options);
}

/** @return array<string, mixed> */
function shown(Job $job): array
{
    return ['id' => $job->id, 'state' => $job->state, 'payload' => $job->exact(), 'payload_text' => $job->payloadText(), 'result' => $job->exactResult(),
        'result_text' => $job->resultText(), 'attempt' => $job->attempt, 'key' => $job->key, 'tags' => $job->tags];
}

/** @return array<string, mixed> */
function problem(DuetimeError $error): array
{
    return ['code' => $error->errorCode, 'status' => $error->status, 'field' => $error->field, 'type' => (new ReflectionClass($error))->getShortName()];
}

/** @param array<string, mixed> $args */
function call(Client $client, string $call, array $args, string $text): mixed
{
    $id = (string) ($args['id'] ?? '');
    $pushed = static fn (Pushed $pushed): array => ['id' => $pushed->id, 'outcome' => $pushed->outcome, 'state' => $pushed->state];
    switch ($call) {
        case 'push':
            return $pushed($client->pushJob(newJob($args, $text)));
        case 'push_many':
            $texts = Duetime\Json::elements(Duetime\Json::members($text)['jobs']);
            $answers = $client->pushMany(array_map(newJob(...), $args['jobs'], $texts));
            return array_map(static fn (Pushed|DuetimeError $one): array => $one instanceof Pushed ? $pushed($one) : ['error' => problem($one)], $answers);
        case 'cancel_by_key':
            return ['outcome' => $client->cancelByKey($args['queue'], $args['key'])->value];
        case 'cancel':
            return ['outcome' => $client->cancel($id, $args['if_version'] ?? null)->value];
        case 'run':
            return shown($client->run($id, $args['if_version'] ?? null));
        case 'retry':
            return shown($client->retry($id, $args['if_version'] ?? null));
        case 'delete':
            $client->delete($id, $args['if_version'] ?? null);
            return null;
        case 'reschedule':
            return shown($client->reschedule($id, $args['delay'], ifVersion: $args['if_version'] ?? null));
        case 'get':
            return shown($client->get($id));
        case 'find':
            $job = $client->find($args['queue'], $args['key']);
            return $job === null ? null : shown($job);
        case 'jobs':
            $query = $args['query'] ?? $args;
            if (isset($query['limit'])) {
                $query['page'] = (int) $query['limit'];
                unset($query['limit']);
            }
            return array_map(static fn (Job $job): string => $job->id, iterator_to_array($client->jobs(...$query), false));
        case 'wait':
            $job = $client->wait($id, Duetime\Duration::seconds($args['timeout']));
            return ['state' => $job->state, 'result' => $job->exactResult()];
        case 'cancel_all':
            return (object) $client->cancelAll($args['selection'] ?? $args);
        case 'retry_all':
            return (object) $client->retryAll($args['selection'] ?? $args);
        case 'queue_set':
            return $client->queues->set($args['queue'], $args['settings']);
        case 'queue_pause':
            return $client->queues->pause($args['queue']);
        case 'queue_resume':
            return $client->queues->resume($args['queue']);
        case 'queue_purge':
            return ['purged' => $client->queues->purge($args['queue'])];
        case 'queue_delete':
            return $client->queues->delete($args['queue'], $args['force'] ?? false);
        case 'queue_get':
            return $client->queues->get($args['queue']);
        case 'schedule_set':
            return $client->schedules->set($args['name'], $args['schedule']);
        case 'schedule_delete':
            $client->schedules->delete($args['name']);
            return null;
        case 'lock':
            $hold = Duetime\Duration::milliseconds($args['hold'] ?? 0);
            return $client->lock($args['name'], static function (Lock $lock) use ($hold): array {
                usleep($hold * 1000);
                return ['fence' => $lock->fence];
            }, $args['ttl']);
        case 'events':
            $events = [];
            foreach ($client->events(...$args['query'] ?? []) as $event) {
                if ($event['type'] !== 'subscribed') {
                    $events[] = $event;
                }
                if (count($events) >= $args['count']) {
                    break;
                }
            }
            return $events;
    }
    throw new RuntimeException("unknown call $call");
}

/** @param array<string, string> $options */
function answer(array $options): void
{
    $deadline = isset($options['deadline']) ? (float) $options['deadline'] : null;
    $client = new Client(timeout: (float) ($options['timeout'] ?? 5), deadline: $deadline ?? 30.0, pushDeadline: $deadline ?? 10.0,
        pushTries: $deadline === null ? 2 : PHP_INT_MAX);
    while (($line = fgets(STDIN)) !== false) {
        try {
            $request = Duetime\Json::decode($line);
            $text = Duetime\Json::members($line)['args'] ?? '{}';
            $answer = '{"ok":' . text(call($client, $request['call'], $request['args'] ?? [], $text)) . '}';
        } catch (DuetimeError $error) {
            $answer = text(['error' => problem($error)]);
        } catch (Throwable $error) {
            $answer = text(['error' => ['code' => 'driver', 'status' => 0, 'field' => null, 'type' => $error::class, 'message' => $error->getMessage()]]);
        }
        fwrite(STDOUT, $answer . "\n");
    }
}

/** @param array<string, string> $options */
function work(array $options): void
{
    $log = static function (array $line) use ($options): void {
        file_put_contents($options['log'], json_encode($line + ['ms' => (int) (microtime(true) * 1000)]) . "\n", FILE_APPEND | LOCK_EX);
    };
    $worker = new Worker(new Client(), explode(',', $options['queues']), lease: isset($options['lease']) ? (float) $options['lease'] : null,
        stopDeadline: (float) ($options['stop-deadline'] ?? 25));
    $worker->handle('*', static function (RunningJob $job) use ($log): mixed {
        $about = ['id' => $job->id, 'attempt' => $job->attempt];
        $log(['event' => 'start'] + $about);
        try {
            return carryOut($job, static fn () => $log(['event' => 'cancelled'] + $about));
        } finally {
            $log(['event' => 'end'] + $about);
        }
    });
    $log(['event' => 'ready', 'pid' => getmypid()]);
    $worker->run();
}

function carryOut(RunningJob $job, Closure $cancelled): mixed
{
    $what = $job->payload;
    $until = hrtime(true) + ($what['ms'] ?? 0) * 1_000_000;
    switch ($what['do'] ?? '') {
        case 'succeed':
            return new RawJson(Duetime\Json::members($job->payloadText())['result'] ?? 'null');
        case 'fail':
            throw new RuntimeException($what['message'] ?? 'failed');
        case 'raise_bytes':
            throw new RuntimeException("not UTF-8: \xd6\xd0\xff");
        case 'fatal':
            throw new Fatal($what['message'] ?? 'fatal');
        case 'retry_after':
            throw new RetryAfter($what['delay'], 'later');
        case 'release':
            throw new Release($what['delay'] ?? 0, $what['priority'] ?? null);
        case 'park':
            throw new Park($what['message'], $what['priority'] ?? null);
        case 'sleep':
            while (hrtime(true) < $until) {
                usleep(10_000);
            }
            return null;
        case 'block':
            // Half in one blocking call, half in a loop.
            usleep(intdiv($what['ms'] ?? 0, 2) * 1000);
            while (hrtime(true) < $until) {
            }
            return null;
        case 'progress':
            $job->progress(50, 'half of it');
            return null;
        case 'bad_result':
            return "\xff\xfe";
        case 'wait_for_cancel':
            while (hrtime(true) < $until) {
                if ($job->cancelled()) {
                    $cancelled();
                    return null;
                }
                usleep(10_000);
            }
            return null;
        case 'die':
            posix_kill((int) getmypid(), SIGKILL);
            return null;
        default:
            return $job->exact();
    }
}

/** @param list<string> $arguments */
function main(array $arguments): void
{
    $options = options(array_slice($arguments, 2));
    match ($arguments[1] ?? '') {
        'call' => answer($options),
        'work' => work($options),
        default => exit("usage: driver.php call | work\n"),
    };
}

main($argv);
