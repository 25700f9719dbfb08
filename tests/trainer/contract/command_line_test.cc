#include "trainer/contract/program/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "trainer/contract/error.h"

namespace coxswain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A program with a flag of each kind.
struct Parsed {
  std::string image = "standard";
  std::string address = ":8080";
  std::vector<std::string> lists;
  bool elect = false;
  double seconds = 0;
  int samples = 0;
  std::string file;
};

Parsed parse(std::vector<const char*> arguments) {
  Parsed parsed;
  CLI::App app("A program.", "program");
  CLI::App* command = app.add_subcommand("serve", "serve");
  app.add_subcommand("version", "version");
  app.require_subcommand(1);
  command->add_option("--image", parsed.image);
  command->add_option("--address", parsed.address);
  command->add_option("--list", parsed.lists)->allow_extra_args(false);
  command->add_option("--seconds", parsed.seconds);
  command->add_option("--samples", parsed.samples);
  command->add_option("-f,--file", parsed.file);
  command->add_flag("--elect", parsed.elect);
  arguments.insert(arguments.begin(), "program");
  const auto help =
      parse_command_line(app, static_cast<int>(arguments.size()), arguments.data(), {"--address"});
  EXPECT_FALSE(help.has_value());
  return parsed;
}

std::string refusal(const std::vector<const char*>& arguments) {
  try {
    (void)parse(arguments);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

}  // namespace

TEST(CommandLine, a_flag_never_takes_the_next_one_for_its_value) {
  for (const std::string flag : {"--image", "--address", "--list", "--seconds", "--file"}) {
    EXPECT_EQ(refusal({"serve", flag.c_str(), "--elect"}), flag + " needs a value");
    EXPECT_EQ(refusal({"serve", flag.c_str()}), flag + " needs a value");
    if (flag == "--address") continue;
    EXPECT_EQ(refusal({"serve", (flag + "=").c_str(), "--elect"}), flag + " needs a value");
    EXPECT_EQ(refusal({"serve", flag.c_str(), "", "--elect"}), flag + " needs a value");
  }
  EXPECT_EQ(refusal({"serve", "-f", "--elect"}), "-f needs a value");
  EXPECT_EQ(refusal({"serve", "-f="}), "-f needs a value");
  EXPECT_EQ(refusal({"serve", "--elect="}), "--elect needs a value");
}

TEST(CommandLine, a_flag_may_be_empty_where_that_means_something) {
  for (const std::vector<const char*>& empty :
       {std::vector<const char*>{"--address="}, {"--address", ""}}) {
    std::vector<const char*> arguments = {"serve"};
    arguments.insert(arguments.end(), empty.begin(), empty.end());
    arguments.push_back("--elect");
    const Parsed parsed = parse(arguments);
    EXPECT_EQ(parsed.address, "");
    EXPECT_TRUE(parsed.elect);
  }
}

TEST(CommandLine, takes_values_to_the_letter) {
  const Parsed parsed = parse({"serve", "--image=--elect", "--list=a,b", "--list", "[c,d]",
                               "--seconds", "-3", "-f=x=y", "--elect=false"});
  EXPECT_EQ(parsed.image, "--elect");
  EXPECT_THAT(parsed.lists, ElementsAre("a,b", "[c,d]"));
  EXPECT_EQ(parsed.seconds, -3);
  EXPECT_EQ(parsed.file, "x=y");
  EXPECT_FALSE(parsed.elect);
  EXPECT_EQ(parse({"serve", "-fjob.yaml"}).file, "job.yaml");
  EXPECT_EQ(parse({"serve", "--file", "serve"}).file, "serve");
}

TEST(CommandLine, a_number_is_the_same_to_all) {
  EXPECT_EQ(parse({"serve", "--samples=10"}).samples, 10);
  EXPECT_THAT(refusal({"serve", "--samples=010"}), HasSubstr("--samples: \"010\" is not the same"));
  EXPECT_EQ(parse({"serve", "--image=010"}).image, "010");
}

TEST(CommandLine, says_what_was_probably_meant) {
  EXPECT_EQ(refusal({"serve", "--imag=x"}),
            "unknown argument --imag=x; did you mean --image? (see program serve --help)");
  EXPECT_EQ(refusal({"versoin"}),
            "unknown argument versoin; did you mean version? (see program --help)");
  EXPECT_EQ(refusal({"serve", ""}), "unknown argument \"\" (see program serve --help)");
  EXPECT_THAT(refusal({}), HasSubstr("see program --help"));
  EXPECT_THAT(refusal({"serve", "--elect=perhaps"}), HasSubstr("--elect"));
  EXPECT_THAT(refusal({"serve", "--image=a", "--image=b"}), HasSubstr("--image"));
}

TEST(CommandLine, cuts_and_escapes_what_it_tells) {
  const std::string said = refusal({"serve", ("\x1b[31m" + std::string(5000, 'x')).c_str()});
  EXPECT_THAT(said, HasSubstr("unknown argument \\x1b[31mxxx"));
  EXPECT_LT(said.size(), 150u);
}

TEST(CommandLine, gives_the_help_of_the_command) {
  CLI::App app("A program.", "program");
  app.add_subcommand("serve", "serve things")->add_option("--image", "of what is served");
  const std::vector<const char*> arguments = {"program", "serve", "--help"};
  const auto help = parse_command_line(app, 3, arguments.data());
  ASSERT_TRUE(help.has_value());
  EXPECT_THAT(*help, HasSubstr("--image"));
}

}  // namespace coxswain
