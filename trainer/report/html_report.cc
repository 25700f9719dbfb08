#include "trainer/report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "trainer/contract/printable.h"
#include "trainer/report/html_chart.h"

namespace coxswain::report {

namespace {

constexpr std::size_t kMostRows = 100;         // of a table
constexpr std::size_t kMostTextBytes = 20000;  // of a configuration
constexpr std::size_t kMostWordBytes = 300;    // of a message or a name

constexpr std::size_t kMostNotes = 20;

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;
--ink:#1c2230;--dim:#667085;--ground:#fbfbfd;--card:#fff;--line:#dfe3ea;
--c0:#2563c9;--c1:#c2410c;--bad:#b42318}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9f0;--dim:#98a2b3;--ground:#12151c;--card:#1a1f29;
--line:#313846;--c0:#7aa9ff;--c1:#ff9d5c;--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;padding:24px 16px 48px;background:var(--ground);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1080px;margin:0 auto}
h1{font-size:24px;margin:0 0 4px;overflow-wrap:anywhere}h2{font-size:17px;margin:32px 0 10px}
p{margin:4px 0}.dim{color:var(--dim)}.bad{color:var(--bad)}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));
gap:10px;margin:16px 0}
.facts div,figure,.scroll,pre{background:var(--card);border:1px solid var(--line);border-radius:8px}
.facts div{padding:10px 12px}.facts b{display:block;font-size:19px;overflow-wrap:anywhere}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:14px}
figure{margin:0;padding:12px}figcaption{font-size:14px}svg{display:block;width:100%;height:auto}
svg text{font-size:12px;fill:var(--dim)}.left{text-anchor:end}.below{text-anchor:middle}
.grid{stroke:var(--line)}.restart{stroke:var(--dim);stroke-dasharray:4 4}
.curve{fill:none;stroke-width:2;stroke-linejoin:round}.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}
.m0{fill:var(--c0)}.m1{fill:var(--c1)}
.key{margin-left:10px;white-space:nowrap;color:var(--dim)}
.key::before{content:"";display:inline-block;width:10px;height:10px;border-radius:5px;
margin-right:5px}
.k0::before{background:var(--c0)}.k1::before{background:var(--c1)}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:14px}
th,td{padding:6px 12px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
tr:last-child td{border-bottom:0}th{font-weight:600;color:var(--dim)}
td.text,th.text{text-align:left;white-space:normal;min-width:16em;overflow-wrap:anywhere}
pre{padding:12px;margin:0;overflow-x:auto;font-size:13px}.wrap{white-space:pre-wrap}
)";

std::string word(std::string_view text) { return escaped(shortened(text, kMostWordBytes, "...")); }

std::string number(const std::optional<double>& value, int decimals, double scale = 1) {
  return value ? fmt::format("{:.{}f}", *value * scale, decimals) : "";
}

std::string fact(std::string_view name, std::string_view value) {
  if (value.empty()) return "";
  return fmt::format("<div><span class=\"dim\">{}</span><b>{}</b></div>\n", name, escaped(value));
}

template <class Points, class Member>
Curve curve(std::string name, const Points& points, Member member, double scale = 1) {
  Curve result{std::move(name), {}};
  for (const auto& point : points) {
    if (const auto& value = point.*member)
      result.points.emplace_back(static_cast<double>(point.step), *value * scale);
  }
  return result;
}

Curve with_marks(Curve curve) {
  curve.marks = true;
  return curve;
}

std::string how_it_ended(const RunHistory& history, std::size_t index) {
  const Attempt& attempt = history.attempts[index];
  if (!attempt.cause.empty()) {
    const std::string own = attempt.end.empty() ? "" : "; rank 0 left with " + word(attempt.end);
    return word(attempt.cause) + own;
  }
  if (!attempt.end.empty()) return word(attempt.end);
  return index + 1 < history.attempts.size() ? "fell silent: killed, or its machine was lost"
                                             : "under way, or fell silent";
}

std::string head(const RunHistory& history) {
  const Attempt& last = history.attempts.back();
  std::string text = fmt::format("<h1>{}</h1>\n<p class=\"dim\">begun {}; {}</p>\n",
                                 word(last.model.empty() ? "a run" : last.model),
                                 word(history.attempts.front().time),
                                 how_it_ended(history, history.attempts.size() - 1));
  text += "<div class=\"facts\">\n";
  const auto scored = std::find_if(history.epochs.rbegin(), history.epochs.rend(),
                                   [](const EpochPoint& point) { return point.accuracy; });
  if (scored != history.epochs.rend()) {
    text += fact("test accuracy", number(scored->accuracy, 2, 100) + " %");
    text += fact("test loss", number(scored->loss, 4));
  }
  if (!history.epochs.empty()) {
    text += fact("epochs", fmt::format("{}", history.epochs.back().epoch));
    text += fact("images/s", number(history.epochs.back().samples_per_second, 0));
    text += fact("an epoch", number(history.epochs.back().seconds, 1) + " s");
  }
  text += fact("steps", fmt::format("{}", last.last_step));
  text += fact("ranks x threads", fmt::format("{} x {}", last.world_size, last.threads));
  text += fact("parameters", fmt::format("{}", last.parameters));
  text += fact("restarts", fmt::format("{}", history.attempts.size() - 1));
  return text + "</div>\n";
}

std::string charts(const RunHistory& history) {
  std::vector<double> restarts;
  for (std::size_t i = 1; i < std::min(history.attempts.size(), kMostRows); ++i)
    restarts.push_back(static_cast<double>(history.attempts[i].first_step));
  const auto last_step = static_cast<double>(history.attempts.back().last_step);
  const auto& [steps, epochs] = std::tie(history.steps, history.epochs);
  std::string text = "<h2>Curves, by step</h2>\n<div class=\"charts\">\n";
  text += render_chart({"Loss",
                        "",
                        {curve("training", steps, &StepPoint::loss),
                         with_marks(curve("test", epochs, &EpochPoint::loss))},
                        restarts,
                        last_step});
  text += render_chart({"Accuracy",
                        " %",
                        {curve("training", steps, &StepPoint::accuracy, 100),
                         with_marks(curve("test", epochs, &EpochPoint::accuracy, 100))},
                        restarts,
                        last_step});
  text += render_chart({"Images/s",
                        "",
                        {curve("all ranks", steps, &StepPoint::samples_per_second)},
                        restarts,
                        last_step});
  text += render_chart(
      {"Learning rate", "", {curve("lr", steps, &StepPoint::lr)}, restarts, last_step});
  return text + "</div>\n";
}

std::string attempts(const RunHistory& history) {
  std::string text =
      "<h2>Attempts</h2>\n<div class=\"scroll\"><table><tr><th>attempt</th>"
      "<th class=\"text\">how it ended</th><th>from step</th><th>to step</th><th>ranks</th>"
      "<th>begun</th></tr>\n";
  const std::size_t count = history.attempts.size();
  for (std::size_t i = count - std::min(count, kMostRows); i < count; ++i) {
    const Attempt& attempt = history.attempts[i];
    text += fmt::format(
        "<tr><td>{}</td><td "
        "class=\"text{}\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        attempt.number, ended_well(attempt) ? "" : " bad", how_it_ended(history, i),
        attempt.first_step, attempt.last_step, attempt.world_size, word(attempt.time));
  }
  text += "</table></div>\n";
  const auto& [notes, warnings] =
      std::tie(history.attempts.back().notes, history.attempts.back().warnings);
  for (std::size_t i = 0; i < std::min(notes.size(), kMostNotes); ++i)
    text += fmt::format("<p class=\"dim\">{}</p>\n", word(notes[i]));
  for (std::size_t i = 0; i < std::min(warnings.size(), kMostNotes); ++i)
    text += fmt::format("<p class=\"bad\">warning: {}</p>\n", word(warnings[i]));
  return text;
}

std::string epochs(const RunHistory& history) {
  if (history.epochs.empty()) return "";
  std::string text =
      "<h2>Epochs</h2>\n<div class=\"scroll\"><table><tr><th>epoch</th><th>training loss</th>"
      "<th>accuracy</th><th>test loss</th><th>accuracy</th><th>top-5</th><th>lr</th>"
      "<th>images/s</th><th>seconds</th></tr>\n";
  const std::size_t count = history.epochs.size();
  for (std::size_t i = count - std::min(count, kMostRows); i < count; ++i) {
    const EpochPoint& at = history.epochs[i];
    text += fmt::format("<tr><td>{}</td>", at.epoch);
    for (const std::string& cell :
         {number(at.training_loss, 4), number(at.training_accuracy, 2, 100), number(at.loss, 4),
          number(at.accuracy, 2, 100), number(at.top5, 2, 100),
          at.lr ? fmt::format("{:.6g}", *at.lr) : "", number(at.samples_per_second, 0),
          number(at.seconds, 1)})
      text += "<td>" + cell + "</td>";
    text += "</tr>\n";
  }
  return text + "</table></div>\n";
}

std::string step_parts(std::string_view timeline) {
  if (timeline.empty()) return "";
  return fmt::format("<h2>What a step is made of</h2>\n<pre class=\"wrap\">{}</pre>\n",
                     escaped(shortened(timeline, kMostTextBytes, "...")));
}

std::string settings(const Attempt& last) {
  return fmt::format(
      "<h2>Configuration</h2>\n<pre>{}</pre>\n<h2>Fingerprint of the numbers</h2>\n<pre>{}</pre>\n",
      escaped(shortened(last.configuration, kMostTextBytes, "...")), word(last.fingerprint));
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string render_html(const RunHistory& history, std::string_view timeline) {
  std::string body = "<h1>No run</h1>\n<p>The history holds no attempt yet.</p>\n";
  if (!history.attempts.empty()) {
    body = head(history) + charts(history) + attempts(history) + epochs(history) +
           step_parts(timeline) + settings(history.attempts.back());
  }
  if (history.unreadable_lines > 0)
    body += fmt::format("<p class=\"bad\">{} lines of the history can't be read</p>\n",
                        history.unreadable_lines);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{}</style></head>\n"
      "<body><main>\n{}</main></body></html>\n",
      word(history.attempts.empty() ? "Coxswain" : history.attempts.back().model + " - Coxswain"),
      kStyle, body);
}

}  // namespace coxswain::report
