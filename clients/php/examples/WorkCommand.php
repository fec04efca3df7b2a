<?php

declare(strict_types=1);

namespace App\Command;

use Duetime\{Client, RunningJob, Worker};
use Symfony\Component\Console\Command\Command;
use Symfony\Component\Console\Input\{InputInterface, InputOption};
use Symfony\Component\Console\Output\OutputInterface;

/** A worker as a command of a Symfony application: `bin/console orders:work --max-jobs 1000`. */
final class WorkCommand extends Command
{
    /** @param array<string, callable(RunningJob): mixed> $handlers by kind, such as tagged services */
    public function __construct(private readonly Client $client, private readonly array $handlers)
    {
        parent::__construct('orders:work');
    }

    protected function configure(): void
    {
        $this->setDescription('Runs the jobs of the queue "orders"')
            ->addOption('max-jobs', null, InputOption::VALUE_REQUIRED, 'Stop after so many jobs')
            ->addOption('drain', null, InputOption::VALUE_NONE, 'Run what is due, then stop');
    }

    protected function execute(InputInterface $input, OutputInterface $output): int
    {
        $maxJobs = $input->getOption('max-jobs');
        $worker = new Worker($this->client, ['orders'], maxJobs: $maxJobs === null ? null : (int) $maxJobs, memoryLimit: 128);
        foreach ($this->handlers as $kind => $handler) {
            $worker->handle($kind, $handler);
        }
        $count = $input->getOption('drain') ? $worker->drain() : $worker->run();
        $output->writeln("$count jobs");
        return Command::SUCCESS;
    }
}
