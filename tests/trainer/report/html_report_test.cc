#include "trainer/report/html_report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace coxswain::report {
namespace {

constexpr std::string_view kTwoAttempts =
    R"({"event":"attempt","attempt":0,"time":"2026-01-01T00:00:00Z","configuration":"model: mlp\n"}
)"
    R"({"event":"started","model":"mlp","parameters":10,"worldSize":2,"threads":1,"firstStep":0,)"
    R"("fingerprint":"f00d","notes":[]}
{"event":"step","epoch":1,"step":1,"loss":2.5,"accuracy":0.1,"samplesPerSecond":100,"lr":0.1}
{"event":"step","epoch":1,"step":10,"loss":1.5,"accuracy":0.5,"samplesPerSecond":100,"lr":0.1}
{"event":"step","epoch":1,"step":20,"loss":9.5,"accuracy":0.5,"samplesPerSecond":100,"lr":0.1}
{"event":"left","code":71,"reason":"PeerLost","message":"rank 1 is gone"}

{"event":"attempt","attempt":1,"time":"2026-01-01T00:01:00Z","configuration":"model: mlp\n"}
)"
    R"({"event":"started","model":"mlp","parameters":10,"worldSize":2,"threads":1,"firstStep":10,)"
    R"("fingerprint":"f00d","notes":["resumed"]}
{"event":"step","epoch":1,"step":20,"loss":1.0,"accuracy":0.6,"samplesPerSecond":100,"lr":0.1}
)"
    R"({"event":"epoch","epoch":1,"step":24,"trainingLoss":1.2,"trainingAccuracy":0.7,"loss":0.9,)"
    R"("accuracy":0.75,"seconds":2,"samplesPerSecond":100}
{"event":"finished","result":"Succeeded","steps":24}
{"event":"st)";

TEST(RunHistory, leaves_out_what_a_later_attempt_did_again) {
  const RunHistory history = parse_history(kTwoAttempts);
  ASSERT_EQ(history.attempts.size(), 2U);
  EXPECT_EQ(history.attempts[0].end, "PeerLost (71): rank 1 is gone");
  EXPECT_EQ(history.attempts[0].last_step, 20);
  EXPECT_EQ(history.attempts[1].first_step, 10);
  EXPECT_EQ(history.attempts[1].end, "Succeeded");
  ASSERT_EQ(history.steps.size(), 3U);
  EXPECT_EQ(history.steps[1].step, 10);
  EXPECT_EQ(history.steps[2].loss, 1.0);
  ASSERT_EQ(history.epochs.size(), 1U);
  EXPECT_EQ(history.epochs[0].accuracy, 0.75);
  EXPECT_EQ(history.unreadable_lines, 1);  // it was cut off
}

TEST(RunHistory, reads_whatever_there_is) {
  for (const char* text : {"", "\n\n", "[1]\n", "{}\n", "{\"event\":5}\n", "\xff\xfe\n"})
    EXPECT_TRUE(parse_history(text).attempts.empty()) << text;
  const RunHistory odd = parse_history(
      "{\"event\":\"attempt\",\"attempt\":\"x\",\"time\":[]}\n"
      "{\"event\":\"step\",\"step\":1e300,\"loss\":null}\n{\"event\":\"started\",\"notes\":{}}\n");
  EXPECT_EQ(odd.attempts.size(), 1U);
  EXPECT_NE(render_html(odd).find("</html>"), std::string::npos);
}

TEST(RunHistory, takes_the_causes_of_whoever_watched_all_ranks) {
  const auto line = [](int number, const char* cause) {
    return attempt_line(number, "now", "", cause);
  };
  const std::string left = left_line(71, "PeerLost", "rank 1 is gone");
  const RunHistory history =
      parse_history(line(0, "") + left + line(1, "Failure: worker-1 exit=137") +
                    line(3, "Node: worker-0: its node is gone"));
  ASSERT_EQ(history.attempts.size(), 4U);
  EXPECT_EQ(history.attempts[0].cause, "Failure: worker-1 exit=137");
  EXPECT_EQ(history.attempts[0].end, "PeerLost (71): rank 1 is gone");
  EXPECT_EQ(history.attempts[1].cause, "");
  EXPECT_EQ(history.attempts[2].number, 2) << "which ended before it wrote a line";
  EXPECT_EQ(history.attempts[2].cause, "Node: worker-0: its node is gone");
  const std::string page = render_html(history);
  EXPECT_NE(page.find("Failure: worker-1 exit=137; rank 0 left with PeerLost (71): rank 1 is gone"),
            std::string::npos);
  // An earlier run that ended well had no such cause.
  const std::string saved = "{\"event\":\"finished\",\"result\":\"Saved\"}\n";
  EXPECT_EQ(parse_history(line(0, "") + saved + line(1, "Startup: late")).attempts[0].cause, "");
}

TEST(HtmlReport, tells_what_a_step_is_made_of) {
  const RunHistory history = parse_history(kTwoAttempts);
  EXPECT_EQ(render_html(history).find("made of"), std::string::npos);
  const std::string page = render_html(history, "3 steps: <b>\nconv1 2 ms\n");
  EXPECT_NE(page.find("What a step is made of</h2>"), std::string::npos);
  EXPECT_NE(page.find("3 steps: &lt;b&gt;\nconv1 2 ms"), std::string::npos);
}

TEST(HtmlReport, tells_the_run) {
  const std::string page = render_html(parse_history(kTwoAttempts));
  for (const char* part : {"<h1>mlp</h1>", "75.00 %", "PeerLost (71): rank 1 is gone", "Succeeded",
                           "model: mlp", "f00d", "<b>Loss</b>", "an attempt began at step 10",
                           "prefers-color-scheme:dark", "1 lines of the history"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  // It fetches nothing and runs nothing.
  for (const char* part : {"http", "<script", "@import", "url("})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
}

TEST(HtmlReport, escapes_what_comes_from_outside) {
  const std::string evil = R"(<script>alert(1)</script>\"'&)";
  std::string text = fmt::format(
      R"({{"event":"attempt","attempt":0,"time":"{0}","configuration":"{0}"}}
{{"event":"started","model":"{0}","fingerprint":"{0}","notes":["{0}"]}}
{{"event":"step","step":1,"loss":1}}
{{"event":"warning","message":"{0}"}}
{{"event":"left","code":1,"reason":"{0}","message":"{0}"}}
)",
      evil);
  const RunHistory history = parse_history(text);
  ASSERT_EQ(history.unreadable_lines, 0);
  const std::string page = render_html(history);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("\"'&"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"), std::string::npos);
}

TEST(HtmlReport, of_a_long_run_is_below_500_KB) {
  const std::string long_text(5000, '"');
  std::string escaped_text;
  for (std::size_t i = 0; i < long_text.size(); ++i) escaped_text += "\\\"";
  std::string text;
  for (int attempt = 0; attempt < 300; ++attempt) {
    text += fmt::format(
        "{{\"event\":\"attempt\",\"attempt\":{0},\"configuration\":\"{1}{1}{1}{1}{1}\"}}\n"
        "{{\"event\":\"started\",\"firstStep\":{2},\"notes\":[\"{1}\"],\"model\":\"{1}\"}}\n",
        attempt, escaped_text, attempt * 30);
    for (int step = 1; step <= 30; ++step) {
      text += fmt::format(
          "{{\"event\":\"step\",\"step\":{},\"loss\":1.5,\"accuracy\":0.5,\"lr\":0.1,"
          "\"samplesPerSecond\":1e5}}\n{{\"event\":\"warning\",\"message\":\"{}\"}}\n",
          attempt * 30 + step, long_text.substr(0, 0) + "w");
    }
    text +=
        fmt::format("{{\"event\":\"epoch\",\"epoch\":{},\"step\":{},\"loss\":1,\"accuracy\":1}}\n",
                    attempt, attempt * 30 + 30);
    text +=
        fmt::format("{{\"event\":\"left\",\"code\":71,\"reason\":\"{0}\",\"message\":\"{0}\"}}\n",
                    escaped_text);
  }
  const RunHistory history = parse_history(text);
  ASSERT_EQ(history.attempts.size(), 300U);
  ASSERT_EQ(history.steps.size(), 9000U);
  EXPECT_LT(render_html(history).size(), 500'000U);
}

}  // namespace
}  // namespace coxswain::report
