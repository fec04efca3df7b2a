# A job of Sidekiq. Prints `ran N`, or `early N`; each tenth one fails at first, and prints `failed N`.
require "sidekiq"
require "set"

class Ship
  include Sidekiq::Worker
  sidekiq_options retry: 3
  sidekiq_retry_in { 1 }

  FAILED = Set.new
  LOCK = Mutex.new

  def perform(name, due)
    fails = name % 10 == 9 && LOCK.synchronize { FAILED.add?(name) }
    word = Time.now.to_f < due ? "early" : fails ? "failed" : "ran"
    $stdout.write("#{word} #{name}\n")
    raise "it fails at first" if fails
  end
end
