# sidekiq.rb - runs gpuimgd from Sidekiq: a worker pushes jobs, and a consumer enqueues the worker
# that follows.
#
#     PhotoUploaded.perform_async(42, "1732700000", "in/42.jpg")   # in your application
#     sidekiq -r ./sidekiq.rb                                      # runs the three workers
#     ruby sidekiq.rb [NAME]                                       # the consumer; a unique NAME
#
# Needs Sidekiq 6 or later and the gem redis. REDIS_URL is the Redis of gpuimgd and of Sidekiq. A
# worker may run twice, as any of Sidekiq's.
require "json"
require "redis"
require "sidekiq"

module Gpuimgd
  JOBS = "gpuimgd:jobs"
  REPLIES = "gpuimgd:reply:sidekiq"

  # Each thread has its own connection.
  def self.redis
    Thread.current[:gpuimgd_redis] ||=
      Redis.new(url: ENV.fetch("REDIS_URL", "redis://127.0.0.1:6379"), reconnect_attempts: 1)
  end

  # A worker that runs again pushes the same id, and the daemons run a unique job once.
  def self.push(id, job, meta)
    redis.lpush(JOBS, JSON.generate(job.merge(
      "id" => id, "unique" => true, "reply_to" => REPLIES, "meta" => meta,
      "pushed" => Time.now.to_f)))
  end

  # Enqueues what follows a result. It stays in the second list until Sidekiq has its worker.
  def self.consume(name)
    taken = "#{REPLIES}:taken:#{name}"
    text = redis.lindex(taken, -1) || redis.blmove(REPLIES, taken, "RIGHT", "LEFT", timeout: 5)
    return unless text
    begin
      result = JSON.parse(text)
    rescue JSON::ParserError
      result = nil
    end
    unless result.is_a?(Hash) && result["meta"].is_a?(Hash)
      warn "not a result of a photo: #{text.inspect}"
      return redis.lrem(taken, -1, text)
    end
    photo = result.dig("meta", "photo")
    if result["status"] == "done"
      PhotoReady.perform_async(photo, result["outputs"].map { |output| output["path"] })
    else # failed, dead or cancelled
      PhotoFailed.perform_async(photo, result.dig("error", "code"), result.dig("error", "message"))
    end
    redis.lrem(taken, -1, text)
  end
end

class PhotoUploaded
  include Sidekiq::Worker

  # version: of the photo, such as the time of its upload
  def perform(photo, version, path)
    Gpuimgd.push("photo-#{photo}-#{version}",
                 { "input" => path, "outputs" => [
                   { "output" => "photos/#{photo}/large.webp",
                     "ops" => [{ "op" => "resize", "width" => 1200 }] },
                   { "output" => "photos/#{photo}/small.webp",
                     "ops" => [{ "op" => "resize", "width" => 320 }] }] },
                 { "photo" => photo })
  end
end

class PhotoReady
  include Sidekiq::Worker

  def perform(photo, paths)
    logger.info("photo #{photo}: #{paths.join(' ')}") # here, your application shows the photo
  end
end

class PhotoFailed
  include Sidekiq::Worker

  def perform(photo, code, message)
    logger.warn("photo #{photo}: #{code}: #{message}")
  end
end

if $PROGRAM_NAME == __FILE__
  running = true
  %w[INT TERM].each { |signal| trap(signal) { running = false } }
  while running
    begin
      Gpuimgd.consume(ARGV.fetch(0, "1"))
    rescue StandardError => error # Redis is away, for example; the result stays where it is
      warn "#{error.class}: #{error.message}"
      sleep 1
    end
  end
end
