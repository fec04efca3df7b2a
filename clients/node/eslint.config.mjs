import { defineConfig, globalIgnores } from 'eslint/config'
import typescript from 'typescript-eslint'

export default defineConfig(
  globalIgnores(['dist', 'build', 'examples']),
  {
    files: ['**/*.ts', '**/*.mts'],
    extends: [typescript.configs.strictTypeChecked, typescript.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { project: ['./tsconfig.json', './test/tsconfig.json'] } },
    rules: {
      // Numbers in messages and paths are meant.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/dot-notation': 'off',
    },
  },
  {
    files: ['test/**'],
    // `describe` and `it` return promises that the runner awaits.
    rules: { '@typescript-eslint/no-floating-promises': 'off' },
  },
)
