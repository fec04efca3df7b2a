<?php

declare(strict_types=1);

namespace Duetime\Laravel\Tests\App;

use Illuminate\Config\Repository;
use Illuminate\Container\Container;
use Illuminate\Contracts\Console\Kernel as KernelContract;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Database\Schema\Blueprint;
use Illuminate\Foundation\Application as Laravel;
use Illuminate\Foundation\Bootstrap\{BootProviders, RegisterFacades, RegisterProviders};
use Illuminate\Foundation\Console\Kernel;
use Illuminate\Foundation\Exceptions\Handler;
use Illuminate\Support\Facades\Facade;

/** A Laravel application of Debian's packages, in a folder of its own. */
final class Application
{
    /** Boots it, as `artisan` would. @param array<string, mixed> $duetime of the connection */
    public static function boot(string $folder, string $connection, array $duetime = []): Laravel
    {
        foreach (['bootstrap/cache', 'storage/framework/cache', 'storage/logs'] as $name) {
            is_dir("$folder/$name") || mkdir("$folder/$name", 0777, true);
        }
        is_file("$folder/database.sqlite") || touch("$folder/database.sqlite");
        Facade::clearResolvedInstances();
        $app = new Laravel($folder);
        Container::setInstance($app);
        $app->singleton(KernelContract::class, Kernel::class);
        $app->singleton(ExceptionHandler::class, Silent::class);
        $app->instance('config', new Repository(self::config($folder, $connection, $duetime)));
        $app->detectEnvironment(static fn (): string => 'testing');
        date_default_timezone_set('UTC');
        $app->bootstrapWith([RegisterFacades::class, RegisterProviders::class, BootProviders::class]);
        // The tests need no file that survives a power failure.
        $app->make('db')->connection()->statement('PRAGMA synchronous = OFF');
        return $app;
    }

    /** Makes its tables. */
    public static function migrate(Laravel $app): void
    {
        $schema = $app->make('db')->connection()->getSchemaBuilder();
        $schema->create('jobs', static function (Blueprint $table): void {
            $table->bigIncrements('id');
            $table->string('queue')->index();
            $table->longText('payload');
            $table->unsignedTinyInteger('attempts');
            $table->unsignedInteger('reserved_at')->nullable();
            $table->unsignedInteger('available_at');
            $table->unsignedInteger('created_at');
        });
        $schema->create('failed_jobs', static function (Blueprint $table): void {
            $table->id();
            $table->string('uuid')->unique();
            $table->text('connection');
            $table->text('queue');
            $table->longText('payload');
            $table->longText('exception');
            $table->timestamp('failed_at')->useCurrent();
        });
        $schema->create('job_batches', static function (Blueprint $table): void {
            $table->string('id')->primary();
            $table->string('name');
            $table->integer('total_jobs');
            $table->integer('pending_jobs');
            $table->integer('failed_jobs');
            $table->text('failed_job_ids');
            $table->mediumText('options')->nullable();
            $table->integer('cancelled_at')->nullable();
            $table->integer('created_at');
            $table->integer('finished_at')->nullable();
        });
        $schema->create('effects', static function (Blueprint $table): void {
            $table->id();
            $table->string('job');
            $table->string('what');
        });
        $schema->create('orders', static function (Blueprint $table): void {
            $table->id();
            $table->timestamps();
        });
    }

    /**
     * @param array<string, mixed> $duetime
     * @return array<string, mixed>
     */
    private static function config(string $folder, string $connection, array $duetime): array
    {
        return [
            'app' => ['name' => 'shop', 'env' => 'testing', 'debug' => true, 'url' => 'http://localhost', 'timezone' => 'UTC', 'locale' => 'en',
                'fallback_locale' => 'en', 'key' => 'base64:' . base64_encode(str_repeat('k', 32)), 'cipher' => 'AES-256-CBC', 'aliases' => [],
                'providers' => [
                    \Illuminate\Bus\BusServiceProvider::class,
                    \Illuminate\Cache\CacheServiceProvider::class,
                    \Illuminate\Foundation\Providers\FoundationServiceProvider::class,
                    \Illuminate\Foundation\Providers\ConsoleSupportServiceProvider::class,
                    \Illuminate\Database\DatabaseServiceProvider::class,
                    \Illuminate\Encryption\EncryptionServiceProvider::class,
                    \Illuminate\Filesystem\FilesystemServiceProvider::class,
                    \Illuminate\Pipeline\PipelineServiceProvider::class,
                    \Illuminate\Queue\QueueServiceProvider::class,
                    \Illuminate\Redis\RedisServiceProvider::class,
                    \Illuminate\Translation\TranslationServiceProvider::class,
                    \Illuminate\View\ViewServiceProvider::class,
                    \Duetime\Laravel\DuetimeServiceProvider::class,
                ]],
            'cache' => ['default' => 'file', 'prefix' => 'shop', 'stores' => ['file' => ['driver' => 'file', 'path' => "$folder/storage/framework/cache"]]],
            'database' => ['default' => 'sqlite', 'connections' => ['sqlite' => ['driver' => 'sqlite', 'database' => "$folder/database.sqlite"]],
                'redis' => ['client' => 'phpredis', 'options' => ['prefix' => 'laravel_database_'],
                    'default' => ['host' => '127.0.0.1', 'port' => (int) (getenv('REDIS_PORT') ?: 6379), 'database' => 0]]],
            'filesystems' => ['default' => 'local', 'disks' => ['local' => ['driver' => 'local', 'root' => "$folder/storage"]]],
            'logging' => ['default' => 'null', 'channels' => ['null' => ['driver' => 'monolog', 'handler' => \Monolog\Handler\NullHandler::class]]],
            'queue' => ['default' => $connection, 'connections' => [
                'sync' => ['driver' => 'sync'],
                'database' => ['driver' => 'database', 'table' => 'jobs', 'queue' => 'default', 'retry_after' => 90],
                'redis' => ['driver' => 'redis', 'connection' => 'default', 'queue' => 'default', 'retry_after' => 90, 'block_for' => null],
                'duetime' => $duetime,
            ], 'failed' => ['driver' => 'database-uuids', 'database' => 'sqlite', 'table' => 'failed_jobs']],
            'view' => ['paths' => [], 'compiled' => "$folder/storage"],
        ];
    }
}

/** Reports of exceptions are not what is tested; they are kept. */
final class Silent extends Handler
{
    /** @var list<string> */
    public static array $reported = [];

    public function report(\Throwable $e): void
    {
        self::$reported[] = $e::class . ': ' . $e->getMessage();
    }
}
