#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/operator/kube/tls_calls.h"

namespace coxswain::kube {
namespace {

TEST(HttpTransport, a_stream_gives_its_pieces_as_they_come) {
  std::atomic<int> num_pieces{0};
  TlsServer server(server_identity(), [&](Connection& connection) {
    connection.read_request();
    connection.write(kChunkedHead);
    for (int i = 0; i < 3; ++i) {
      connection.write(chunk("piece"));
      while (num_pieces <= i) std::this_thread::yield();  // the client has it before the next
    }
    connection.write("0\r\n\r\n");
    connection.wait_for_end();
  });
  HttpTransport transport(config_of(server));
  std::string all;
  const Response response = transport.stream(get("/"), {}, [&](std::string_view piece) {
    all += piece;
    ++num_pieces;
    return true;
  });
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(all, "piecepiecepiece");
}

TEST(HttpTransport, a_stream_that_is_refused_gives_the_answer_and_no_piece) {
  TlsServer server(server_identity(), [&](Connection& connection) {
    connection.read_request();
    connection.answer(410, "too old", "Retry-After: 1\r\n");
  });
  HttpTransport transport(config_of(server));
  const Response response = transport.stream(get("/"), {}, [](std::string_view) {
    ADD_FAILURE();
    return true;
  });
  EXPECT_EQ(response.status, 410);
  EXPECT_EQ(response.body, "too old");
}

TEST(HttpTransport, a_stream_that_falls_silent_ends_at_the_deadline) {
  TlsServer server(server_identity(), one_piece);
  HttpTransport transport(config_of(server));
  int num_pieces = 0;
  const auto start = steady_clock::now();
  const Response response = transport.stream(get("/", milliseconds(150)), {},
                                             [&](std::string_view) { return ++num_pieces > 0; });
  EXPECT_LT(since(start), kSoon);
  EXPECT_EQ(response.status, 0);
  EXPECT_EQ(response.body, "silent for 150 ms");
  EXPECT_EQ(num_pieces, 1);
}

TEST(HttpTransport, a_stream_ends_when_it_is_told_to_stop) {
  TlsServer server(server_identity(), one_piece);
  HttpTransport transport(config_of(server));
  std::stop_source stop;
  std::atomic<bool> has_begun{false};
  std::jthread stopper([&] {
    while (!has_begun) std::this_thread::yield();
    stop.request_stop();
  });
  const auto start = steady_clock::now();
  transport.stream(get("/", milliseconds(60'000)), stop.get_token(), [&](std::string_view) {
    has_begun = true;
    return true;
  });
  EXPECT_LT(since(start), kSoon);
}

TEST(HttpTransport, a_stream_ends_when_its_reader_has_enough) {
  TlsServer server(server_identity(), one_piece);
  HttpTransport transport(config_of(server));
  const auto start = steady_clock::now();
  EXPECT_EQ(transport.stream(get("/"), {}, [](std::string_view) { return false; }).status, 200);
  EXPECT_LT(since(start), kSoon);
}

TEST(HttpTransport, a_long_stream_keeps_no_call_waiting) {
  TlsServer server(server_identity(), [](Connection& connection) {
    for (std::string request; !(request = connection.read_request()).empty();) {
      if (request.starts_with("GET /watch")) {
        connection.write(kChunkedHead);
      } else {
        connection.answer(200, "{}");
      }
    }
  });
  HttpTransport transport(config_of(server));
  std::stop_source stop;
  {
    std::vector<std::jthread> watches;
    for (int i = 0; i < 4; ++i)
      watches.emplace_back([&] {
        transport.stream(get("/watch"), stop.get_token(), [](std::string_view) { return true; });
      });
    for (int i = 0; i < 20; ++i) EXPECT_EQ(transport.send(get("/a")).status, 200);
    stop.request_stop();
  }
}

TEST(HttpTransport, a_slow_reader_holds_the_server_back) {
  constexpr std::size_t kPieces = 64;
  std::atomic<std::size_t> num_written{0};
  TlsServer server(server_identity(), [&](Connection& connection) {
    connection.read_request();
    connection.write(kChunkedHead);
    const std::string piece = chunk(std::string(1 << 20, 'x'));
    while (num_written < kPieces && connection.write(piece)) ++num_written;
    connection.write("0\r\n\r\n");
    connection.wait_for_end();
  });
  HttpTransport transport(config_of(server));
  std::size_t num_bytes = 0;
  bool first = true;
  const Response response = transport.stream(get("/"), {}, [&](std::string_view piece) {
    if (std::exchange(first, false)) {
      std::this_thread::sleep_for(milliseconds(300));  // long enough to send it all
      EXPECT_LT(num_written, kPieces / 2);
    }
    num_bytes += piece.size();
    return true;
  });
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(num_bytes, kPieces << 20);
}

TEST(HttpTransport, what_a_reader_throws_is_an_end_and_not_an_exception) {
  TlsServer server(server_identity(), one_piece);
  HttpTransport transport(config_of(server));
  const Response response = transport.stream(
      get("/"), {}, [](std::string_view) -> bool { throw std::runtime_error("x"); });
  EXPECT_EQ(response.status, 0);
}

}  // namespace
}  // namespace coxswain::kube
