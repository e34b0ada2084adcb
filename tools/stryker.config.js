/** For `npm run mutation`: `scripts/mutation.ts` names the files in the environment. */
export default {
  mutate: JSON.parse(process.env.OUTLAST_MUTANTS).mutate,
  plugins: ["./tools/node_modules/@stryker-mutator/vitest-runner/dist/src/index.js"],
  testRunner: "vitest",
  // By default Stryker runs the tests that import a mutated file by a path, and misses the imports of a package's name.
  vitest: { configFile: "tools/vitest.config.ts", related: false },
  tsconfigFile: "unused: TypeScript 7 has no API for it",
  coverageAnalysis: "perTest",
  concurrency: 2,
  tempDirName: ".cache/mutants",
  ignorePatterns: [".cache", "coverage"],
  reporters: ["clear-text"],
  clearTextReporter: { allowColor: false, logTests: false, reportTests: false },
  allowEmpty: false,
  thresholds: { high: 100, low: 100, break: 100 }
}
