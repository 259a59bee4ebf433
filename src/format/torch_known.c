/*
 * Sorted by the whole name, for bsearch.  The same function has stood in
 * several modules over the years; each is a line.
 */
#include "torch_known.h"
#include <stdlib.h>
#include <string.h>

/* Longer than any name in the tables. */
#define NAME_ROOM 96

struct known {
	const char *name;
	enum tasd_torch_tag tag;
};

static const struct known table[] = {
	{"__builtin__.bytearray", TASD_TORCH_BYTES_TYPE},
	{"__builtin__.bytes", TASD_TORCH_BYTES_TYPE},
	{"__builtin__.complex", TASD_TORCH_COMPLEX_TYPE},
	{"__builtin__.dict", TASD_TORCH_DICT_TYPE},
	{"__builtin__.frozenset", TASD_TORCH_SET_TYPE},
	{"__builtin__.list", TASD_TORCH_LIST_TYPE},
	{"__builtin__.set", TASD_TORCH_SET_TYPE},
	{"__builtin__.tuple", TASD_TORCH_TUPLE_TYPE},
	{"_codecs.encode", TASD_TORCH_ENCODE},
	{"builtins.bytearray", TASD_TORCH_BYTES_TYPE},
	{"builtins.bytes", TASD_TORCH_BYTES_TYPE},
	{"builtins.complex", TASD_TORCH_COMPLEX_TYPE},
	{"builtins.dict", TASD_TORCH_DICT_TYPE},
	{"builtins.frozenset", TASD_TORCH_SET_TYPE},
	{"builtins.list", TASD_TORCH_LIST_TYPE},
	{"builtins.set", TASD_TORCH_SET_TYPE},
	{"builtins.tuple", TASD_TORCH_TUPLE_TYPE},
	{"collections.Counter", TASD_TORCH_DICT_TYPE},
	{"collections.OrderedDict", TASD_TORCH_DICT_TYPE},
	{"collections.defaultdict", TASD_TORCH_DICT_TYPE},
	{"copy_reg.__newobj__", TASD_TORCH_NEWOBJ},
	{"copy_reg.__newobj_ex__", TASD_TORCH_NEWOBJ_EX},
	{"copy_reg._reconstructor", TASD_TORCH_RECONSTRUCTOR},
	{"copyreg.__newobj__", TASD_TORCH_NEWOBJ},
	{"copyreg.__newobj_ex__", TASD_TORCH_NEWOBJ_EX},
	{"copyreg._reconstructor", TASD_TORCH_RECONSTRUCTOR},
	{"numpy._core.multiarray._reconstruct", TASD_TORCH_ND_RECONSTRUCT},
	{"numpy._core.multiarray.scalar", TASD_TORCH_ND_SCALAR},
	{"numpy._core.numeric._frombuffer", TASD_TORCH_ND_FROMBUFFER},
	{"numpy.core.multiarray._reconstruct", TASD_TORCH_ND_RECONSTRUCT},
	{"numpy.core.multiarray.scalar", TASD_TORCH_ND_SCALAR},
	{"numpy.core.numeric._frombuffer", TASD_TORCH_ND_FROMBUFFER},
	{"numpy.dtype", TASD_TORCH_ND_DTYPE},
	{"torch.BFloat16Tensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.BoolTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.ByteTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.CharTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.DoubleTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.FloatTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.HalfTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.IntTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.LongTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.ShortTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.Size", TASD_TORCH_SIZE},
	{"torch.Tensor", TASD_TORCH_TENSOR_CLASS},
	{"torch._C.Size", TASD_TORCH_SIZE},
	{"torch._C.device", TASD_TORCH_DEVICE},
	{"torch._tensor._rebuild_from_type", TASD_TORCH_FROM_TYPE},
	{"torch._tensor._rebuild_from_type_v2", TASD_TORCH_FROM_TYPE},
	{"torch._utils._rebuild_device_tensor_from_cpu_tensor",
		TASD_TORCH_COPIED},
	{"torch._utils._rebuild_device_tensor_from_numpy", TASD_TORCH_COPIED},
	{"torch._utils._rebuild_meta_tensor_no_storage", TASD_TORCH_META},
	{"torch._utils._rebuild_mlc_tensor", TASD_TORCH_COPIED},
	{"torch._utils._rebuild_nested_tensor", TASD_TORCH_NESTED},
	{"torch._utils._rebuild_parameter", TASD_TORCH_PARAMETER},
	{"torch._utils._rebuild_parameter_with_state",
		TASD_TORCH_PARAMETER_STATE},
	{"torch._utils._rebuild_qtensor", TASD_TORCH_QTENSOR},
	{"torch._utils._rebuild_sparse_csr_tensor", TASD_TORCH_SPARSE},
	{"torch._utils._rebuild_sparse_tensor", TASD_TORCH_SPARSE},
	{"torch._utils._rebuild_tensor", TASD_TORCH_TENSOR},
	{"torch._utils._rebuild_tensor_v2", TASD_TORCH_TENSOR_V2},
	{"torch._utils._rebuild_tensor_v3", TASD_TORCH_TENSOR_V3},
	{"torch._utils._rebuild_wrapper_subclass", TASD_TORCH_WRAPPER},
	{"torch._utils._rebuild_xla_tensor", TASD_TORCH_COPIED},
	{"torch.autograd.variable.Variable", TASD_TORCH_VARIABLE},
	{"torch.cuda.BFloat16Tensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.cuda.BoolTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.cuda.ByteTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.cuda.CharTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.cuda.DoubleTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.cuda.FloatTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.cuda.HalfTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.cuda.IntTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.cuda.LongTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.cuda.ShortTensor", TASD_TORCH_TENSOR_CLASS},
	{"torch.device", TASD_TORCH_DEVICE},
	{"torch.nested._internal.nested_tensor._rebuild_njt",
		TASD_TORCH_JAGGED},
	{"torch.nn.parameter.Parameter", TASD_TORCH_PARAMETER},
	{"torch.serialization._get_layout", TASD_TORCH_LAYOUT},
	{"torch.storage._load_from_bytes", TASD_TORCH_LOAD_BYTES},
	{"torch.tensor._rebuild_from_type", TASD_TORCH_FROM_TYPE},
	{"torch.tensor._rebuild_from_type_v2", TASD_TORCH_FROM_TYPE},
};

static int by_name(const void *key, const void *entry)
{
	return strcmp(key, ((const struct known *)entry)->name);
}

enum tasd_torch_tag tasd_torch_known(const struct tasd_pkl_global *global)
{
	const struct known *found;
	char name[NAME_ROOM];
	size_t len = (size_t)global->module_len + 1 + global->name_len;

	if (global->ext || len >= sizeof(name))
		return TASD_TORCH_UNKNOWN;
	memcpy(name, global->module, global->module_len);
	name[global->module_len] = '.';
	memcpy(name + global->module_len + 1, global->name, global->name_len);
	name[len] = '\0';
	found = strlen(name) == len
			? bsearch(name, table, sizeof(table) / sizeof(*table),
				  sizeof(*table), by_name)
			: NULL;
	return found ? found->tag : TASD_TORCH_UNKNOWN;
}

struct named_dtype {
	const char *name;
	enum tasd_dtype dtype;
};

static enum tasd_dtype look_up(
	const struct named_dtype *names, size_t n, const char *name, size_t len)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(names[i].name) == len &&
			memcmp(names[i].name, name, len) == 0)
			return names[i].dtype;
	return TASD_DTYPE_NONE;
}

enum tasd_dtype tasd_torch_dtype(const char *name, size_t len)
{
	for (int d = 1; d < TASD_DTYPE_COUNT; d++) {
		const char *have = tasd_dtype_info(d)->name;

		/* Those of other formats, which torch has not, or not so. */
		if (d == TASD_DTYPE_F6_E2M3FN || d == TASD_DTYPE_F6_E3M2FN ||
			d == TASD_DTYPE_F4_E2M1FN)
			continue;
		if (strlen(have) == len && memcmp(have, name, len) == 0)
			return d;
	}
	return TASD_DTYPE_NONE;
}

enum tasd_dtype tasd_torch_storage_dtype(
	const char *name, size_t len, bool *ret_untyped)
{
	static const struct named_dtype classes[] = {
		{"FloatStorage", TASD_DTYPE_F32},
		{"HalfStorage", TASD_DTYPE_F16},
		{"BFloat16Storage", TASD_DTYPE_BF16},
		{"LongStorage", TASD_DTYPE_I64},
		{"IntStorage", TASD_DTYPE_I32},
		{"ByteStorage", TASD_DTYPE_U8},
		{"BoolStorage", TASD_DTYPE_BOOL},
		{"DoubleStorage", TASD_DTYPE_F64},
		{"ShortStorage", TASD_DTYPE_I16},
		{"CharStorage", TASD_DTYPE_I8},
		{"ComplexFloatStorage", TASD_DTYPE_C64},
		{"ComplexDoubleStorage", TASD_DTYPE_C128},
		{"QInt8Storage", TASD_DTYPE_QI8},
		{"QUInt8Storage", TASD_DTYPE_QU8},
		{"QInt32Storage", TASD_DTYPE_QI32},
		{"QUInt4x2Storage", TASD_DTYPE_QU4X2},
		{"QUInt2x4Storage", TASD_DTYPE_QU2X4},
		{"UntypedStorage", TASD_DTYPE_U8},
	};
	enum tasd_dtype dtype =
		look_up(classes, sizeof(classes) / sizeof(*classes), name, len);

	*ret_untyped = dtype == TASD_DTYPE_U8 && *name == 'U';
	return dtype;
}

bool tasd_torch_is_constant(const struct tasd_pkl_global *global)
{
	static const char *const others[] = {"per_tensor_affine",
		"per_tensor_symmetric", "per_channel_affine",
		"per_channel_symmetric", "per_channel_affine_float_qparams",
		"strided", "contiguous_format", "channels_last",
		"channels_last_3d", "preserve_format"};

	if (global->ext || global->module_len != 5 ||
		memcmp(global->module, "torch", 5) != 0)
		return false;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (strlen(others[i]) == global->name_len &&
			memcmp(others[i], global->name, global->name_len) == 0)
			return true;
	return tasd_torch_dtype(global->name, global->name_len) !=
	       TASD_DTYPE_NONE;
}
