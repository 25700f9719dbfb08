#include "trainer/contract/worker/ranks_page.h"

#include <cmath>

#include "trainer/contract/worker/json_fields.h"

namespace coxswain::contract {

namespace {

using Json = nlohmann::ordered_json;

double rounded(double value, double unit) { return std::round(value / unit) * unit; }
// Four digits after the point, whatever binary makes of them.
Json share(double value) { return Json::parse(std::to_string(rounded(value, 1e-4)).substr(0, 6)); }

Json to_json(const RankRow& row) {
  return {{"rank", row.rank},
          {"samplesPerSecond", rounded(row.samples_per_second, 0.5)},
          {"data", share(row.data)},
          {"waiting", share(row.waiting)},
          {"compute", share(row.compute)},
          {"memoryBytes", row.memory_bytes},
          {"secondsAgo", rounded(row.seconds_ago, 0.5)}};
}

std::optional<RankRow> read_row(const nlohmann::json& json) {
  RankRow row;
  JsonFields fields(json);
  fields.read("rank", row.rank);
  fields.read("samplesPerSecond", row.samples_per_second);
  fields.read("data", row.data);
  fields.read("waiting", row.waiting);
  fields.read("compute", row.compute);
  fields.read("memoryBytes", row.memory_bytes);
  fields.read("secondsAgo", row.seconds_ago);
  return fields.ok() ? std::optional(row) : std::nullopt;
}

std::optional<SlowestRank> read_slowest(const nlohmann::json& json) {
  SlowestRank slowest;
  JsonFields fields(json);
  fields.read("rank", slowest.rank);
  fields.read("behind", slowest.behind);
  fields.read("since", slowest.since);
  return fields.ok() ? std::optional(slowest) : std::nullopt;
}

}  // namespace

std::string to_json(const RanksPage& page) {
  Json ranks = Json::array();
  for (const RankRow& row : page.ranks) ranks.push_back(to_json(row));
  Json json = {{"worldSize", page.world_size}, {"ranks", ranks}};
  if (page.next) json["next"] = *page.next;
  if (page.slowest)
    json["slowest"] = {{"rank", page.slowest->rank},
                       {"behind", share(page.slowest->behind)},
                       {"since", page.slowest->since}};
  return dump(json);
}

std::optional<RanksPage> parse_ranks_page(std::string_view text) {
  const auto json = parse_object(text, kMaxRanksPageBytes);
  if (!json) return std::nullopt;
  RanksPage page;
  JsonFields fields(*json);
  fields.read("worldSize", page.world_size);
  fields.read("next", page.next);
  if (!fields.ok()) return std::nullopt;
  for (const auto& each : list_at(*json, "ranks")) {
    const auto row = read_row(each);
    if (!row) return std::nullopt;
    page.ranks.push_back(*row);
  }
  if (find(*json, "slowest")) page.slowest = read_slowest(*find(*json, "slowest"));
  return page;
}

}  // namespace coxswain::contract
