"""Writes rows with verl's columns, as its preprocessing scripts do: make_data.py FILE"""

import sys

import pyarrow
import pyarrow.parquet

rows = [{"data_source": "sums", "ability": "math",
         "prompt": [{"role": "user", "content": f"What is {a} + {b}? End with the number."}],
         "reward_model": {"style": "rule", "ground_truth": str(a + b)}, "extra_info": {"index": 7 * a + b}}
        for a in range(2, 9) for b in range(3, 9)]
pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), sys.argv[1])
