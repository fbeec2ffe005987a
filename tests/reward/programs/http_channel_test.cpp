#include "keel/reward/programs/http_channel.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "keel/core/json.h"
#include "keel/reward/programs/http_response.h"
#include "tests/support/reward_samples.h"

namespace keel {
namespace {

/// Replies to each connection with its next text, then closes it; "" waits for the end of the test. With `stays` it
/// keeps all connections open until then.
class Server {
 public:
  explicit Server(std::vector<std::string> answers, bool stays = false) : answers_(std::move(answers)), stays_(stays) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { serve(); });
  }
  ~Server() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
    for (const int connection : waiting_) close(connection);
  }
  std::string url(const std::string& path = "/judge?x=1") const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }
  std::vector<std::string> requests() {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    for (const std::string& answer : answers_) {
      const int connection = accept(listener_, nullptr, nullptr);
      if (connection < 0) return;
      std::string request;
      char buffer[4096];
      while (!is_whole(request)) {
        const ssize_t count = recv(connection, buffer, sizeof(buffer), 0);
        if (count <= 0) break;
        request.append(buffer, static_cast<size_t>(count));
      }
      {
        const std::scoped_lock lock(mutex_);
        requests_.push_back(request);
      }
      for (size_t sent = 0; sent < answer.size();) {
        const ssize_t count = send(connection, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) break;
        sent += static_cast<size_t>(count);
      }
      if (answer.empty() || stays_) {
        waiting_.push_back(connection);
        continue;
      }
      shutdown(connection, SHUT_WR);
      while (recv(connection, buffer, sizeof(buffer), 0) > 0) continue;
      close(connection);
    }
  }
  static bool is_whole(const std::string& request) {
    const size_t end = request.find("\r\n\r\n"), length = request.find("Content-Length: ");
    return end != std::string::npos && request.size() >= end + 4 + std::stoul(request.substr(length + 16));
  }

  std::vector<std::string> answers_, requests_;
  int listener_ = -1, port_ = 0;
  bool stays_;
  std::vector<int> waiting_;
  std::mutex mutex_;
  std::jthread thread_;
};

std::string ok(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-LENGTH: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

HttpOptions quick(const Server& server) {
  return {.url = server.url(), .timeout = 600, .retries = 2, .first_pause = 0.01};
}

std::string answer_of(Channel& channel) {
  std::string answer;
  channel.exchange("{}", [&](const std::string& reply) { answer = reply; });
  return answer;
}

std::string error_text(Channel& channel) {
  try {
    answer_of(channel);
  } catch (const ChannelError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(HttpReward, PostsRequestsInTheFormatOfOpenRlhf) {
  Server server({ok("{\"rewards\": [0.5, 2]}")});
  SampleBatch batch;
  batch.add("yes", "gold").add("no", 3);
  EXPECT_EQ(score(batch, server.url()), (Rewards{0.5, 2}));
  const std::string request = server.requests().at(0);
  EXPECT_EQ(request.rfind("POST /judge?x=1 HTTP/1.1\r\nHost: 127.0.0.1:", 0), 0u) << request;
  const Json body = Json::parse(request.substr(request.find("\r\n\r\n") + 4));
  EXPECT_EQ(body["query"], Json({"Question 0? yes<eos>", "Question 1? no<eos>"}));
  EXPECT_EQ(body["prompts"], Json({"Question 0? ", "Question 1? "}));
  EXPECT_EQ(body["labels"], Json({"gold", 3}));
}

TEST(HttpReward, RejectsADeeplyNestedResponse) {
  const std::string deep = ok("{\"rewards\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}");
  Server server({deep, deep, deep, deep, deep, deep});
  SampleBatch batch;
  batch.add("yes", "gold");
  RewardOptions options;
  options.functions = {server.url()};
  options.on_error = "zero";
  const RewardResult result = score(batch, options);
  EXPECT_EQ(result.totals, (Rewards{0}));
  EXPECT_THAT(result.failures.at(0), testing::HasSubstr("nested deeper than 512 levels"));
}

TEST(HttpReward, ReadsChunksAndBodiesWithAndWithoutALength) {
  Server server({"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4 \r\n[0.2\r\n2;x=y\r\n5]\r\n0\r\n\r\n",
                 "HTTP/1.1 200\r\nContent-Length: \t3 \r\n\r\n[2]", "HTTP/1.0 200 OK\r\n\r\n[1]"});
  HttpChannel channel(quick(server));
  EXPECT_EQ(answer_of(channel), "[0.25]");
  EXPECT_EQ(answer_of(channel), "[2]");
  EXPECT_EQ(answer_of(channel), "[1]");
}

TEST(HttpReward, DoesNotWaitForTheEndOfTheConnection) {
  const std::string chunked =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[2]\r\n0\r\nTrailer: x\r\n\r\n";
  Server server({ok("[1]"), chunked, "HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno"}, /*stays=*/true);
  HttpChannel channel(quick(server));
  EXPECT_EQ(answer_of(channel), "[1]");
  EXPECT_EQ(answer_of(channel), "[2]");
  EXPECT_EQ(error_text(channel), "answered with status 404: \"no\"");
}

TEST(HttpReward, SkipsInterimResponses) {
  Server server({"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok("[1]")});
  HttpChannel channel(quick(server));
  EXPECT_EQ(answer_of(channel), "[1]");
}

TEST(HttpReward, AcceptsSingleBytes) {
  for (const std::string& answer : {ok("[0.25]"), std::string("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"
                                                              "Transfer-Encoding: chunked\r\n\r\n4\r\n[0.2\r\n"
                                                              "2;x=y\r\n5]\r\n0\r\nTrailer: x\r\n\r\n")}) {
    HttpResponse response(1000);
    for (size_t i = 0; i < answer.size(); ++i) EXPECT_EQ(response.add(answer.substr(i, 1)), i + 1 == answer.size());
    EXPECT_EQ(response.body(), "[0.25]");
  }
}

TEST(HttpReward, RetriesOnlyServerErrors) {
  Server server({"HTTP/1.1 503 Busy\r\n\r\n", "HTTP/1.1 500 Oh\r\n\r\n", ok("[1]"), "HTTP/1.1 404 No\r\n\r\nnothing"});
  HttpChannel channel(quick(server));
  EXPECT_EQ(answer_of(channel), "[1]");
  EXPECT_EQ(error_text(channel), "answered with status 404: \"nothing\"");
  EXPECT_EQ(server.requests().size(), 4u);
}

TEST(HttpReward, FailsAfterItsRetries) {
  Server server(std::vector<std::string>(5, "HTTP/1.1 503 Busy\r\n\r\n"));
  HttpChannel channel(quick(server));
  EXPECT_THAT(error_text(channel), testing::HasSubstr("status 503"));
  EXPECT_EQ(server.requests().size(), 3u);
}

TEST(HttpReward, DoesNotFollowRedirects) {
  Server other({ok("[1]")});
  Server server({"HTTP/1.1 302 Found\r\nLocation: " + other.url() + "\r\n\r\n"});
  HttpChannel channel(quick(server));
  EXPECT_THAT(error_text(channel), testing::HasSubstr("redirect (302)"));
  EXPECT_TRUE(other.requests().empty());
}

TEST(HttpReward, RejectsInvalidAndLongResponses) {
  struct Case {
    std::string answer;
    const char* part;
    size_t requests;  // incomplete responses are retried
  };
  const Case cases[] = {
      {"hello", "not HTTP", 1},
      {"HTTP/1.1\r\n\r\n", "not HTTP: \"HTTP/1.1\\r\\n\"", 1},
      {"HTTP/1.1 OK\r\n\r\n", "not HTTP", 1},
      {"HTT", "within the response header", 3},
      {"HTTP/1.1 200 OK\r\nContent-Lengt", "within the response header", 3},
      {"HTTP/1.1 100 Continue\r\n\r\n", "within the response header", 3},
      {"HTTP/1.1 200 OK\r\nContent-Length: 3 zzz\r\n\r\n[1]", "the Content-Length \"3 zzz\"", 1},
      {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n[1]", "its Content-Length is 10", 3},
      {"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n", "its Content-Length is 3000", 1},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nx", "ends within a chunk", 3},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx", "chunk of \"ffff", 1},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nx", "chunk of \"-5", 1},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3g\r\n[1]\r\n0\r\n\r\n", "chunk of \"3g", 1},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1]XX0\r\n\r\n", "longer than its size, 3 bytes", 1},
      {"HTTP/1.1 200 OK\r\n\r\n" + std::string(3000, ' '), "exceeds 2000 bytes", 1},
  };
  for (const Case& each : cases) {
    Server server(std::vector<std::string>(3, each.answer));
    HttpOptions options = quick(server);
    options.max_response = 2000;
    HttpChannel channel(options);
    const std::string error = error_text(channel);
    EXPECT_THAT(error, testing::HasSubstr(each.part));
    EXPECT_EQ(server.requests().size(), each.requests) << error;
  }
}

TEST(HttpReward, TimesOutOnASilentServer) {
  Server server({"", ""});
  HttpOptions options = quick(server);
  options.timeout = 1;
  options.retries = 0;
  HttpChannel channel(options);
  EXPECT_EQ(error_text(channel), "the response took too long");
}

TEST(HttpReward, RetriesASilentServerAsConfigured) {
  Server server(std::vector<std::string>(5, ""));
  HttpOptions options = quick(server);
  options.timeout = 1;
  options.retries = 2;
  HttpChannel channel(options);
  EXPECT_EQ(error_text(channel), "the response took too long");
  while (server.requests().size() < 3) std::this_thread::yield();  // the server may read them later
  EXPECT_EQ(server.requests().size(), 3u);
}

TEST(HttpReward, NanRewardIsAFailureOfItsSample) {
  Server server({ok("{\"rewards\": [1, \"two\"]}")});
  SampleBatch batch;
  batch.add("a").add("b");
  RewardOptions options;
  options.functions = {server.url()};
  options.on_error = "skip";
  const RewardResult result = score(batch, options);
  EXPECT_EQ(result.totals, (Rewards{1, std::nullopt}));
  EXPECT_THAT(result.failures.at(0), testing::HasSubstr("prompt 101"));
}

TEST(HttpReward, UnreachableServerFailsAllSamplesImmediately) {
  std::string url;
  {
    const Server gone({});
    url = gone.url();
  }
  SampleBatch batch;
  batch.add("a").add("b");
  RewardOptions options;
  options.functions = {url};
  options.on_error = "zero";
  const RewardResult result = score(batch, options);
  EXPECT_EQ(result.totals, (Rewards{0, 0}));
  EXPECT_THAT(result.failures.at(1), testing::HasSubstr("no connection"));
}

}  // namespace
}  // namespace keel
