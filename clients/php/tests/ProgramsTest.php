<?php

declare(strict_types=1);

namespace Duetime\Tests;

use Duetime\{Client, RunningJob, Trace, Worker};
use Duetime\Error\{Forbidden, Invalid, Unauthorized, Unavailable};
use Duetime\Testing\Server;
use PHPUnit\Framework\TestCase;

/** What people run: the script, the examples, a server with TLS and tokens. */
final class ProgramsTest extends TestCase
{
    /** @return array{int, string} */
    private static function script(string ...$command): array
    {
        $environment = ['PATH' => getenv('PATH'), 'DUETIME_SERVER' => Site::server()->address];
        $process = proc_open([PHP_BINARY, __DIR__ . '/../bin/duetime-work', ...$command], [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes,
            null, $environment);
        self::assertIsResource($process);
        $text = (string) stream_get_contents($pipes[1]);
        return [proc_close($process), $text];
    }

    public function testTheScriptAndItsExample(): void
    {
        [$client, $queue] = [Site::client(), Site::queue()];
        $orders = [$client->push($queue, ['order' => 7], kind: 'order.cancel')->id, $client->push($queue, ['order' => 'x'], kind: 'order.cancel')->id];
        $mail = $client->push($queue, null, kind: 'mail')->id;
        $report = $client->push($queue, null, kind: 'report')->id;
        [$code, $text] = self::script("--queues=$queue=2,other$queue=1", '--drain', '--max-jobs', '10', __DIR__ . '/../examples/handlers.php');
        self::assertSame(0, $code, $text);
        self::assertStringContainsString("order 7 is cancelled\n", $text);
        self::assertSame(['cancelled' => 7], $client->get($orders[0])->result);
        self::assertSame('failed', $client->get($orders[1])->state);
        self::assertSame('scheduled', $client->get($mail)->state);
        self::assertSame(90, $client->get($report)->progress['percent'] ?? null);
    }

    public function testTheScriptSaysWhatIsWrong(): void
    {
        $file = __DIR__ . '/../examples/handlers.php';
        foreach ([['--bad', $file], [], ['/nowhere.php'], ['--max-jobs', 'many', $file], ['--queues', 'a=b', $file], ['--queues']] as $command) {
            [$code, $text] = self::script(...$command);
            self::assertSame(64, $code, $text);
            self::assertStringContainsString('Try --help', $text);
        }
        [$code, $text] = self::script('--help');
        self::assertSame(0, $code);
        self::assertStringContainsString('Usage: duetime-work', $text);
    }

    public function testTheSymfonyCommand(): void
    {
        if (!is_file('/usr/share/php/Symfony/Component/Console/autoload.php')) {
            self::markTestSkipped('symfony/console is not installed');
        }
        require_once '/usr/share/php/Symfony/Component/Console/autoload.php';
        require_once __DIR__ . '/../examples/WorkCommand.php';
        $server = Server::start(arguments: Site::MEMORY);
        $client = $server->client();
        $id = $client->push('orders', 1, kind: 'k')->id;
        $command = new \App\Command\WorkCommand($client, ['k' => static fn (RunningJob $job): int => $job->payload + 1]);
        $tester = new \Symfony\Component\Console\Tester\CommandTester($command);
        self::assertSame(0, $tester->execute(['--drain' => true]));
        self::assertSame("1 jobs\n", $tester->getDisplay());
        self::assertSame(2, $client->get($id)->result);
    }

    public function testAServerWithItsOwnAuthorityAndTokens(): void
    {
        $folder = sys_get_temp_dir() . '/duetime-php-' . bin2hex(random_bytes(6));
        mkdir($folder);
        register_shutdown_function(static fn () => array_map('unlink', glob("$folder/*") ?: []) && rmdir($folder));
        $key = openssl_pkey_new(['private_key_type' => OPENSSL_KEYTYPE_EC, 'curve_name' => 'prime256v1']);
        self::assertNotFalse($key);
        file_put_contents("$folder/openssl.cnf", "[req]\ndistinguished_name=dn\nx509_extensions=ext\n[dn]\n[ext]\nsubjectAltName=IP:127.0.0.1\nbasicConstraints=CA:true\n");
        $options = ['config' => "$folder/openssl.cnf", 'digest_alg' => 'sha256', 'x509_extensions' => 'ext'];
        $request = openssl_csr_new(['commonName' => 'duetime'], $key, $options);
        self::assertInstanceOf(\OpenSSLCertificateSigningRequest::class, $request);
        $certificate = openssl_csr_sign($request, null, $key, 1, $options);
        self::assertNotFalse($certificate);
        openssl_x509_export_to_file($certificate, "$folder/ca.pem");
        openssl_pkey_export_to_file($key, "$folder/key.pem", null, $options);
        $binary = getenv('DUETIME_BIN') ?: 'duetime';
        $token = static fn (string $name, string $right): string
            => trim((string) shell_exec("$binary token create $name --allow '$right' --tokens $folder/tokens.toml --json"));
        $tokens = [json_decode($token('all', 'admin'), true)['token'] ?? '', json_decode($token('pusher', 'push:other'), true)['token'] ?? ''];
        $server = Server::start(arguments: [...Site::MEMORY, '--tokens', "$folder/tokens.toml", '--tls-cert', "$folder/ca.pem", '--tls-key', "$folder/key.pem"]);
        $address = $server->address;
        self::assertStringStartsWith('https:', $address);
        $queue = Site::queue();
        $client = new Client($address, $tokens[0], ca: "$folder/ca.pem");
        $client->push($queue, 1);
        // The child knows the authority, too.
        self::assertSame(1, (new Worker($client, $queue, lease: '2s'))->handle('*', static fn () => sleep(3))->drain());
        self::assertSame('succeeded', [...$client->jobs(queue: $queue)][0]->state);
        foreach ([[$tokens[1], Forbidden::class], ['wrong', Unauthorized::class], ['', Unauthorized::class]] as [$token, $class]) {
            try {
                (new Client($address, $token, ca: "$folder/ca.pem"))->push($queue, 1);
                self::fail('it is accepted');
            } catch (\Duetime\DuetimeError $error) {
                self::assertInstanceOf($class, $error);
            }
        }
        try {
            new Client($address, ca: "$folder/no.pem");
            self::fail('it is accepted');
        } catch (Invalid $error) {
            self::assertSame('ca', $error->field);
        }
        $this->expectException(Unavailable::class);
        (new Client($address, $tokens[0], timeout: 0.1, pushDeadline: 0.1))->push($queue, 1);
    }

    public function testTracesOfOpenTelemetry(): void
    {
        require_once __DIR__ . '/OpenTelemetry.php';
        [$client, $queue] = [Site::client(), Site::queue()];
        $trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
        $id = Trace::within($trace, static fn (): string => $client->push($queue)->id);
        self::assertNull(Trace::current());
        self::assertSame($trace, $client->get($id)->trace);
        $seen = null;
        (new Worker($client, $queue))->handle('*', static function () use (&$seen): void {
            $seen = Trace::current();
        })->drain();
        self::assertSame([$trace, null], [$seen, Trace::current()]);
    }
}
